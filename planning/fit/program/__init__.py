"""Certificates of FIT plans: the program of Section 3 as an OR-Tools model, against a plan's drops.

Objectives come one after the other, so a setting is optimal if each of them is as high as it can be
while those before it keep the values that the setting gives them. That is what is asked for, level
by level; weak duality bounds the answer however exact the library was, and the prices of one rate
vector bound the others too.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from planning.arrays import BoolArray, FloatArray
from planning.certifying import Check, Contradiction, Load
from planning.fit.codec import asking
from planning.fit.network import graph
from planning.fit.path.nesting import LEAST, knots
from planning.fit.planner import QUALITIES
from planning.fit.program.library import NetworkProgram, optimum
from planning.fit.program.model import FITS

if TYPE_CHECKING:
    from planning.families import Definition
    from planning.fit.parameters import Parameters
    from planning.fit.plan import Plan
    from planning.fit.statistics import Statistics

__all__ = ["Certifier", "NetworkProgram", "certifier", "optimum"]

EACH = 5
"""Observed rate vectors, inputs and knots of the drops that are tried, of each kind."""
NEAR = 1e-6
KEPT = 1e-12
"""What a better setting may lose of the more important objectives."""
PROVEN = 1e-9
"""Difference that is rounding: no solution is asked for to close it."""


class _Found(NamedTuple):
    """Settings of one part at rows of rates: their levels, better ones, and bounds on any."""

    values: FloatArray
    best: FloatArray
    bound: FloatArray
    over: dict[str, float]  # by how much each server and link is overloaded


class _Part(NetworkProgram):
    """The program of one part of the network, and the prices that its solutions have shown."""

    prices: dict[int, list[FloatArray]]

    def found(self, rates: FloatArray, drops: FloatArray, deadline: float) -> _Found:
        """Return what drops are worth, and what the library and its prices say to that."""
        self.prices = getattr(self, "prices", {})
        variables, whole = self.setting(rates, drops), self.setting(rates, np.zeros_like(drops))
        values, full = variables @ self.levels.T, whole @ self.levels.T
        tight: BoolArray = np.asarray((rates @ self.use.T > 1.0 + FITS).any(axis=1))
        bound = np.where(tight[:, None], np.inf, full)
        best = np.where(tight[:, None], values, np.maximum(values, full))
        used = self.used(variables[tight]).max(axis=0, initial=0.0)
        for level in range(len(self.levels)):
            kept, known = values[tight, :level], self.prices.setdefault(level, [])
            for prices in known:
                self._tighten(bound, level, prices, rates, tight, kept)
            tried = ~tight
            while time.monotonic() < deadline:
                row = int(np.argmax(np.where(tried, -1.0, bound[:, level] - values[:, level])))
                if tried[row] or bound[row, level] - values[row, level] <= PROVEN:
                    break
                tried[row] = True
                left = deadline - time.monotonic()
                solution = self.maximised(level, rates[row], values[row, :level], left)
                if solution is not None:
                    known.append(solution.prices)
                    self._tighten(bound, level, solution.prices, rates, tight, kept)
                    repaired = self.drops(rates[[row]], solution.variables[None, :])
                    reached = (self.setting(rates[[row]], repaired) @ self.levels.T)[0]
                    if (reached[:level] >= values[row, :level] - KEPT).all():
                        best[row, level] = max(best[row, level], reached[level])
        names = [self.names[row] for row in self.capacities]
        over = {name: float(share) - 1.0 for name, share in zip(names, used, strict=True)}
        return _Found(values, best, bound, over)

    def _tighten(
        self,
        bound: FloatArray,
        level: int,
        prices: FloatArray,
        rates: FloatArray,
        rows: BoolArray,
        kept: FloatArray,
    ) -> None:
        """Lower the bounds by what prices prove."""
        proven = self.bounds(level, prices, rates[rows], kept)
        bound[rows, level] = np.minimum(bound[rows, level], proven)


class Certifier:
    """A plan's drops against the program, at rate vectors and, as a scalar load, all observed ones.

    Parts of the network that share no server, link or stream are programs of their own.
    """

    def __init__(
        self, plan: Plan, statistics: Statistics, definition: Definition[Parameters]
    ) -> None:
        self._plan, self._network = plan, statistics.network
        network = statistics.network
        if plan.network.arcs != network.arcs or plan.network.input_ids != network.input_ids:
            raise Contradiction(
                "the certificate contradicts the plan: its network is not that of the statistics"
            )
        self._parts = []
        for part in graph.fragments(network):
            inputs = [network.input_ids.index(i) for i in part.input_ids]
            arcs = [network.arc_index[arc.name] for arc in part.arcs]
            self._parts.append((_Part(part), inputs, arcs))
        self._direct = [
            (network.input_ids.index(o.stream), network.arc_index[f"{o.stream}->{o.id}"], o.weight)
            for o in network.outputs
            if o.stream in network.input_ids
        ]
        self._observed = np.maximum(statistics.rates, 0.0)
        mean = statistics.mean_rates if statistics.mean_rates.any() else network.max_rates
        self._direction = mean / (self._busiest(mean) or 1.0)
        self._loads = self._chosen(definition, statistics.highest_rates)

    def _busiest(self, rates: FloatArray) -> float:
        """Return the highest share of a capacity that rates ask for."""
        return max(
            float((part.use @ rates[inputs]).max(initial=0.0)) for part, inputs, _ in self._parts
        )

    @property
    def scope(self) -> str:
        """What is certified."""
        error, method = self._plan.error, self._plan.method
        if error == 0.0:
            return "optimal for the network as measured"
        if method == "solver_w":
            return (
                f"the error {error:g} of solver_w is an expectation over the observed rates, which "
                "are scaled to the gate's loads here"
            )
        return f"within the error {error:g} of {method} of the optimum of the network as measured"

    @property
    def loads(self) -> list[Load]:
        """The gate's loads, then rate vectors: corners, observed ones, and around knots.

        The error of ``solver_w`` is one over the observed rates, and so are its loads.
        """
        return self._loads

    def _chosen(self, definition: Definition[Parameters], highest: FloatArray) -> list[Load]:
        network, grid = self._network, QUALITIES - 1
        gate = {max(round(load * grid), 1) / grid for load in definition.gate.loads}
        scalar: list[Load] = [*sorted(gate)] if self._plan.qualities else []
        if self._plan.method == "solver_w":
            return scalar
        vectors = [network.max_rates, highest]
        busy = np.argsort([-self._busiest(rates) for rates in self._observed])
        vectors += list(self._observed[busy[:EACH]])
        for knot in knots(self._plan, self._direction)[:EACH]:
            vectors += [self._direction / (knot * (1.0 + step)) for step in (-NEAR, NEAR)]
        vectors += [row for row in np.diag(network.max_rates)[:EACH]]
        named = [dict(zip(network.input_ids, v.tolist(), strict=True)) for v in vectors]
        return [*scalar, *named]

    def check(self, load: Load, limit_s: float) -> Check:
        """Compare the plan's drops with the library's; a scalar load stands for all observed rates.

        A plan with head room follows rates that are higher than those for which it predicts.
        """
        deadline = time.monotonic() + limit_s
        if isinstance(load, Mapping):
            rates = np.array([list(load.values())])
            drops = self._network.drop_vector(self._plan.at(load))[None, :]
            found = self._compared(load, rates, drops, deadline)
            return replace(found, claimed=self._plan.predicted_quality(load))
        assert isinstance(load, float)
        rates = self._observed / (self._busiest(self._observed.mean(axis=0)) * load)
        drops = self._plan.at_many(rates * self._plan.headroom)
        found = self._compared(load, rates * self._plan.headroom, drops, deadline)
        off = self._plan.predicted_quality(load) - self._quality(rates, drops)
        violation, broken = max((found.violation, found.broken), self._broken_promise(load))
        claimed = found.objective + off
        return replace(found, claimed=claimed, violation=violation, broken=broken)

    def _compared(self, load: Load, rates: FloatArray, drops: FloatArray, deadline: float) -> Check:
        outside = float(np.maximum(-drops, drops - 1.0).max())
        if not outside <= PROVEN:  # NaN fails
            return Check(load, np.nan, np.nan, np.nan, np.inf, outside, "drop fractions")
        full = self._throughput(rates, np.zeros_like(drops))
        best = bound = short = 0.0
        broken = (0.0, "")
        for part, inputs, arcs in self._parts:
            found = part.found(rates[:, inputs], drops[:, arcs], deadline)
            broken = max(broken, *((over, name) for name, over in found.over.items()))
            better = np.maximum(found.best - found.values, 0.0)
            possible = np.maximum(found.bound - found.values, 0.0)
            goals = part.worth > 0.0
            best += float((better[:, goals] @ part.worth[goals]).sum())
            bound += float((possible[:, goals] @ part.worth[goals]).sum())
            short = max(short, float(possible[:, ~goals].max(initial=0.0)))
            missed = float(better[:, ~goals].max(initial=0.0))
            broken = max(broken, (missed, "the least shortfall of min_keep and minimums"))
        unit, objective = full or 1.0, self._quality(rates, drops)
        return Check(
            load,
            objective=objective,
            claimed=objective,
            best=objective + best / unit,
            bound=objective + bound / unit + short,
            violation=broken[0],
            broken=broken[1],
        )

    def _throughput(self, rates: FloatArray, drops: FloatArray) -> float:
        """Return the weighted throughput of all rows."""
        reached = sum(w * float(rates[:, i] @ (1.0 - drops[:, a])) for i, a, w in self._direct)
        for part, inputs, arcs in self._parts:
            variables = part.setting(rates[:, inputs], drops[:, arcs])
            reached += float((variables @ part.levels.T @ part.worth).sum())
        return reached

    def _quality(self, rates: FloatArray, drops: FloatArray) -> float:
        """Return the throughput of drops over that of none."""
        full = self._throughput(rates, np.zeros_like(drops))
        return self._throughput(rates, drops) / full if full > 0.0 else 1.0

    def _broken_promise(self, load: float) -> tuple[float, str]:
        """Return the worst of what the plan promises at a load and higher ones, and does not keep.

        Drops that it calls nested shrink as the load grows, and minimums hold from where it says.
        """
        plan, network = self._plan, self._network
        loads = np.linspace(max(load, LEAST), 1.0, QUALITIES)
        rates = self._direction / loads[:, None]
        drops = plan.at_many(rates)
        off = np.abs(plan.rates_at(1.0) - self._direction).max() / self._direction.max()
        broken = (float(off), "the direction of the observed rates")
        rise = np.maximum(np.diff(drops, axis=0), 0.0).max(axis=0, initial=0.0)
        for arc, name in enumerate(arc.name for arc in network.arcs):
            if plan.error == 0.0 and name not in plan.not_nested:
                broken = max(broken, (float(rise[arc]), f"the nesting of the drops of {name}"))
        reached = network.evaluate_many(rates, drops).outputs
        full = network.evaluate_many(rates, np.zeros_like(drops)).outputs
        kept = zip(plan.guarantees, plan.kept(load), asking(network), strict=True)
        for guarantee, told, (place, output) in kept if plan.guarantees else ():
            got = reached[:, place] + np.maximum(output.minimum - full[:, place], 0.0)
            lacks = np.where(loads >= guarantee.holds_from, output.minimum - got, 0.0).max()
            off = abs(told - got[0])
            for missing, what in ((lacks, "the minimum of"), (off, "what it predicts for")):
                found = float(missing) / output.minimum, f"{what} output {output.id}"
                broken = max(broken, found)
        return broken


def certifier(plan: Plan, statistics: Statistics, definition: Definition[Parameters]) -> Certifier:
    """Return what compares a plan's drops with the program of its statistics.

    >>> from planning.certifying import certify
    >>> from planning.examples import demo_definition, demo_plan, demo_statistics
    >>> made = certifier(demo_plan("fit"), demo_statistics("fit"), demo_definition("fit"))
    >>> found = certify(made, "exact", 60.0)
    >>> found.status, found.scope, found.loads == len(made.loads)
    ('optimal', 'optimal for the network as measured', True)
    """
    return Certifier(plan, statistics, definition)

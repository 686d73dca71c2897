"""From the match histogram to the plan: value per comparison of every item, and their order."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from scipy.sparse import csr_array

from planning.arrays import FloatArray, frozen, frozen_ints, single_precision, sorted_sum
from planning.errors import InfeasiblePlan, StatisticsError
from planning.families import Definition
from planning.guarantees import Guarantee
from planning.joins.layout import Layout, vocabulary
from planning.joins.parameters import Parameters
from planning.joins.plan import Guaranteed, Plan
from planning.joins.statistics import Statistics
from planning.parametric import Program, trace

LEAST_HITS = 500  # matches, for a few dozen items
HALF = 0.5
ERROR = 1e-3  # of full quality, and of the shortfalls, between the settings that are kept
ROUNDING = 1e-6  # of a share


def plan(statistics: Statistics, definition: Definition[Parameters]) -> Plan:
    """Solve the plan of a stream pair for every load."""
    parameters, layout = definition.parameters, Layout.of(definition)
    if statistics.windows != parameters.windows:
        raise StatisticsError(
            f"statistics must be over the windows of the definition, got {statistics.windows}; "
            "run the statistics stage again"
        )
    if not statistics.comparisons.sum():
        raise StatisticsError(
            "statistics must hold at least one pair of tuples within the windows, got none; "
            "sample more tuples or check the time attribute"
        )
    density, hits, made = statistics.settled(definition)
    counts = statistics.type_counts.astype(np.float64)
    totals = np.maximum(counts.sum(axis=1), 1.0)
    span = max(statistics.span_s, 1e-9)
    free = Plan(
        windows=statistics.windows,
        condition=parameters.join_condition,
        vocabulary=vocabulary(definition),
        single_valued=parameters.single_valued,
        types=statistics.types,
        utilities=frozen(layout.utilities(parameters)),
        combine=parameters.combine,
        type_frequency=single_precision(counts / totals[:, None]),
        rates_per_s=(float(totals[0] / span), float(totals[1] / span)),
        hits=frozen_ints(hits),
        comparisons=frozen_ints(made),
        density=single_precision(density),
        sample_size=statistics.samples,
        span_s=statistics.span_s,
        unit_cost_s=parameters.unit_cost_s,
        valid_for_s=definition.validity.valid_for_s,
        monitor_fraction=parameters.monitor_fraction,
        load=parameters.load,
        layout=layout,
        lasting=statistics.lasting(definition)[0],
    )
    protected = statistics.protected(definition)
    if not protected:
        return free
    kept = replace(free, guaranteed=guaranteed(free, protected))
    most = max(*definition.gate.loads, parameters.load)
    if lost := [_too_much(kept, *miss) for miss in _missed(kept, definition) if miss[1] == most]:
        raise InfeasiblePlan(f"guarantees must hold at a load that the plan is tried at: {lost[0]}")
    return kept


def guaranteed(free: Plan, protected: list[tuple[Guarantee, FloatArray]]) -> Guaranteed:
    """Return the settings that keep guarantees by priority, and find most besides.

    Maximise the quality over 0 <= x <= 1 and shortfalls e in [0, 1], one for each priority, subject
    to ``processing``, sum of volume * x = load, and ``share[g]``, the share that is found of the
    guarantee's matches >= min_share * (1 - e); before, the shortfalls are minimised in turn.
    """
    volumes, value = free.volumes.ravel(), (free.density * free.volumes).ravel()
    there = np.flatnonzero(volumes)
    asked = np.array([one.value for one, _ in protected])
    shares = np.array([table.ravel() for _, table in protected])
    some = shares.any(axis=1)  # the share of nothing is kept
    levels = sorted({one.priority for one, _ in protected}, reverse=True)
    short = np.array([[one.priority == level for level in levels] for one, _ in protected])
    rows = np.block([[volumes[there], np.zeros(len(levels))],
                     [shares[some][:, there], short[some] * asked[some, None]]])  # fmt: skip
    quality = value[there] / (sorted_sum(value) or 1.0)
    low, n = np.concatenate(([0.0], asked[some])), there.size
    traced = trace(
        Program(
            gain=np.concatenate((quality, np.zeros(len(levels)))),
            lower=np.zeros(n + len(levels)),
            upper=np.ones(n + len(levels)),
            rows=csr_array(rows),
            row_low=low,
            row_high=np.concatenate(([0.0], np.full(low.size - 1, np.inf))),
            move=np.eye(1, low.size)[0],
            excess=tuple(range(n, n + len(levels))),
        ),
        0.0,
        1.0,
        error=ERROR,
    )
    # What no sample was compared with is taken when it would be without guarantees.
    taken = np.array([free.at(load).take.ravel() for load in traced.loads])
    taken[:-1, there] = traced.settings[:-1, :n]
    taken = single_precision(np.clip(taken, 0.0, 1.0))
    kept = np.where(some, taken @ shares.T, 1.0)
    floors = (_floor(traced.loads, k, s) for k, s in zip(kept.T, asked, strict=True))
    return Guaranteed(
        loads=frozen(traced.loads),
        levels=taken,
        quality=frozen(np.minimum(taken[:, there] @ quality, 1.0)),
        kept=frozen(kept),
        guarantees=tuple(
            replace(one, holds_from=floor)
            for (one, _), floor in zip(protected, floors, strict=True)
        ),
        error=max(traced.error, ERROR),
    )


def _floor(loads: FloatArray, kept: FloatArray, asked: float) -> float:
    """Return the load from which on a share is kept; shares are mixed between the loads.

    >>> _floor(np.array([0.0, 0.5, 1.0]), np.array([0.0, 0.5, 1.0]), 0.75)
    0.75
    """
    short = np.flatnonzero(kept < asked - ROUNDING)
    if not short.size:
        return 0.0
    last = int(short[-1])
    a, b = kept[last : last + 2]
    part = min((asked - a) / (b - a), 1.0)
    return float(loads[last] + part * (loads[last + 1] - loads[last]))


def _missed(plan: Plan, definition: Definition[Parameters]) -> list[tuple[Guarantee, float]]:
    """Return guarantees with the largest of the loads that the plan is tried at and they miss."""
    tried = sorted({*definition.gate.loads, definition.parameters.load})
    return [
        (one, max(load for load in tried if load < one.holds_from))
        for one in plan.guarantees
        if tried[0] < one.holds_from
    ]


def _too_much(plan: Plan, one: Guarantee, load: float) -> str:
    """Say by how much a guarantee is missed, and what to relax."""
    found = plan.kept(load)[plan.guarantees.index(one)]
    return (
        f"{one.name}: {one.limit} {one.value:g} holds from load {one.holds_from:.3g} on, at load "
        f"{load:g} it is {found:.3g}: lower {one.limit} or that of others, or give it a higher "
        "priority"
    )


def solver_status(plan: Plan, definition: Definition[Parameters]) -> str:
    """Say how good the plan is: sorting by density solves a fractional knapsack exactly.

    With guarantees it is as good as interpolating between the settings of a linear program.
    """
    error = plan.guaranteed.error if plan.guaranteed else 0.0
    return f"within {error:.3g}" if error else "exact"


def warnings(
    plan: Plan, statistics: Statistics, definition: Definition[Parameters]
) -> list[str]:
    """Say what makes the plan unsound, and the remedy."""
    longest, hits = max(plan.windows.window_s), int(statistics.hits.sum())
    found = []
    if statistics.span_s < 2.0 * longest:
        found.append(
            f"the samples span {statistics.span_s:g} s, less than twice the longer window of "
            f"{longest:g} s, so that old basic windows were seldom full: collect longer stretches "
            "of both streams, or shorten window_s"
        )
    if hits < LEAST_HITS:
        found.append(
            f"the samples hold {hits} matches, fewer than {LEAST_HITS}, so that the order of the "
            "basic windows is mostly chance: collect more tuples of both streams"
        )
    if plan.lasting and np.mean(plan.lasting) < HALF:
        found.append(
            f"only {np.mean(plan.lasting):.0%} of what the first half of the samples promised was "
            "left in the second half: plan more often, and let push watch for drift"
        )
    found += [_too_much(plan, one, load) for one, load in _missed(plan, definition)]
    return found

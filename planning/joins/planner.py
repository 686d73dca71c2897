"""From the match histogram to the plan: value per comparison of every item, and their order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from planning.arrays import FloatArray, frozen, frozen_ints, single_precision
from planning.errors import StatisticsError
from planning.families import Definition
from planning.guarantees import Guarantee
from planning.joins.layout import Layout, vocabulary
from planning.joins.parameters import Parameters
from planning.joins.plan import Guaranteed, Plan
from planning.joins.program import programmed
from planning.joins.statistics import Statistics
from planning.parametric import trace

LEAST_HITS = 500  # matches, for a few dozen items
HALF = 0.5
ERROR = 1e-3  # of full quality, and of the shortfalls, between the settings that are kept
ROUNDING = 1e-6  # of what is asked for


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
    if not statistics.protected(definition):
        return free
    return replace(free, guaranteed=guaranteed(free, statistics, definition))


def guaranteed(
    free: Plan, statistics: Statistics, definition: Definition[Parameters]
) -> Guaranteed:
    """Return the settings that keep guarantees by priority, and find most besides."""
    program, protected = programmed(statistics, definition), statistics.protected(definition)
    traced = trace(program, 0.0, 1.0, error=ERROR)
    n, unseen = free.density.size, free.volumes.ravel() == 0.0
    taken = traced.settings[:, :n].copy()
    # What no sample was compared with is taken when it would be without guarantees.
    taken[:, unseen] = [free.cut(load)[unseen] for load in traced.loads]
    taken[0], taken[-1] = 0.0, 1.0
    levels = single_precision(np.clip(taken, 0.0, 1.0))
    kept = [levels @ shares.ravel() if shares.any() else np.ones(len(levels))
            for _, shares in protected]  # fmt: skip
    return Guaranteed(
        loads=frozen(traced.loads),
        levels=levels,
        quality=frozen(np.minimum(levels @ program.gain[:n], 1.0)),
        kept=frozen(np.transpose(kept)),
        guarantees=tuple(
            replace(one, holds_from=_floor(traced.loads, shares, one.value))
            for (one, _), shares in zip(protected, kept, strict=True)
        ),
        error=max(traced.error, traced.excess_error),
    )


def _floor(loads: FloatArray, kept: FloatArray, asked: float) -> float:
    """Return the load from which on a share is kept; shares are mixed between the loads.

    >>> _floor(np.array([0.0, 0.5, 1.0]), np.array([0.0, 0.5, 1.0]), 0.75)
    0.75
    """
    short = np.flatnonzero(kept < asked * (1.0 - ROUNDING))
    if not short.size:
        return 0.0
    last = int(short[-1])
    a, b = kept[last : last + 2]
    part = min((asked - a) / (b - a), 1.0)
    return float(loads[last] + part * (loads[last + 1] - loads[last]))


def _missed(plan: Plan, one: Guarantee, loads: Sequence[float]) -> str:
    """Say at which of the loads in use a guarantee falls short, by how much, and what to relax."""
    tried = sorted({*loads, plan.load})
    missed = [load for load in tried if load < one.holds_from]
    if not missed:
        return ""
    found = plan.kept(missed[-1])[plan.guarantees.index(one)]
    return (
        f"{one}, and at {', '.join(f'{load:g}' for load in missed)} it falls short (the share is "
        f"{found:.3g} at {missed[-1]:g}): lower {one.limit} or that of others, give it a higher "
        "priority, or provide for a higher load"
    )


def solver_status(plan: Plan, definition: Definition[Parameters]) -> str:
    """Say how good the plan is: sorting by density solves a fractional knapsack exactly.

    With guarantees it is as good as interpolating between the settings of a linear program.
    """
    return f"within {plan.guaranteed.error:.6g}" if plan.guaranteed else "exact"


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
    for one, shares in statistics.protected(definition):
        if not shares.any():
            found.append(
                f"{one.name}: {one.limit} {one.value:g} is of nothing, because the samples hold no "
                "such matches of any utility: collect more tuples, or leave it out"
            )
    missed = (_missed(plan, one, definition.gate.loads) for one in plan.guarantees)
    return found + [text for text in missed if text]

"""From a profile to a plan: every method is a menu of options on one exact frontier.

A stream's frontier is the best over its attributes' options and over thinnings of its tuples; the
frontiers of several streams share the channel. Guarantees come first: :mod:`.levels`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from planning.arrays import frozen, frozen_ints
from planning.attributes import path
from planning.attributes.memory import MAX_ENTITIES
from planning.attributes.plan import UNBOUNDED, Plan
from planning.attributes.planner.levels import Levels
from planning.attributes.planner.menu import (
    Source,
    channel_window,
    menu_of,
    sources_of,
    total_weight,
    tuple_bytes,
)
from planning.attributes.printed import ranking
from planning.attributes.statistics import Statistics, profile_observed
from planning.errors import StatisticsError
from planning.guarantees import NOWHERE, Guarantee

if TYPE_CHECKING:
    from planning.attributes.parameters import Parameters
    from planning.families import Definition

STATUS_DIGITS = 1e-3
HOLDS_SLACK = 1e-9


def plan(statistics: Statistics, definition: Definition[Parameters]) -> Plan:
    """Make the plan of a stream, or of several that share a channel."""
    for stream in statistics.streams:
        names = tuple(a.name for a in stream.attributes)
        if names != definition.attribute_names:
            raise StatisticsError(
                f"statistics must profile the attributes {', '.join(definition.attribute_names)}, "
                f"got {', '.join(names)}; run the statistics stage again"
            )
    return plan_profiles(statistics, definition.parameters)


def solver_status(plan: Plan, definition: Definition[Parameters]) -> str:
    """Tell how close a plan is to the least loss, at any capacity.

    Every point of a frontier without rounding has the least loss for its bytes, and a plan that
    has all of them is exact. Points may have been left out between two that are published, and
    none of them can be better than the higher one: the plan is within the largest step, as a part
    of the quality. What guarantees fall short is always the least: every point where it changes is
    published.
    The paper's ranking and frontiers that were rounded or thinned before they were added up are
    heuristics. A plan that was read back does not know whether it is complete.

    >>> from planning.examples import demo_definition, demo_statistics
    >>> for points in (256, 4096):
    ...     machines = demo_definition("attributes").with_parameters({"frontier_points": points})
    ...     solver_status(plan(demo_statistics("attributes"), machines), machines)
    'within 0.046'
    'exact'
    """
    if plan.method == "paper":
        return "heuristic"
    if plan.complete:
        return "exact"
    pooled = len(plan.streams) > 1 and definition.parameters.inter_stream == "pooled"
    if pooled or _rounded(plan, definition.parameters):
        return "heuristic"
    quality = np.maximum(1.0 - plan.loss[1:], 0.0)
    steps = np.divide(-np.diff(plan.loss), quality, out=np.ones(len(quality)), where=quality > 0)
    step = float(steps.max(initial=0.0))
    return f"within {math.ceil(step / STATUS_DIGITS) * STATUS_DIGITS:.3g}" if step else "exact"


def warnings(
    plan: Plan, statistics: Statistics, definition: Definition[Parameters]
) -> list[str]:
    """Return why the plan may be worse than it says, each with a remedy.

    >>> from planning.examples import demo_definition, demo_plan, demo_statistics
    >>> warnings(demo_plan("attributes"), demo_statistics("attributes"),
    ...          demo_definition("attributes"))
    []
    """
    found = []
    for profile, stream in zip(statistics.streams, plan.streams, strict=True):
        of = f" of {stream.name}" if plan.stream_attribute else ""
        if not stream.cid:
            shed = ", ".join(plan.attributes[j] for j in stream.items) or "nothing"
            found.append(
                f"no attribute{of} was found that names the entity of a tuple, so all tuples are "
                f"taken for reports of one entity, categories and texts are never shed, and {shed} "
                "may be; name the entity in parameters.cid"
            )
        if profile.tuples < plan.window:
            found.append(
                f"the window of {plan.window} tuples is longer than the {profile.tuples} samples"
                f"{of}, so nothing is known about a whole window; land more samples or lower "
                "parameters.window_tuples"
            )
        if profile.entities > MAX_ENTITIES:
            found.append(
                f"{profile.entities} entities{of} are more than the {MAX_ENTITIES} that a source "
                "remembers, so tuples of the others get whatever room is left; raise max_entities "
                "of the shedder or split the stream"
            )
    longest = max(stream.full_bytes for stream in plan.streams)
    room = plan.capacity_bytes(plan.capacity_ratio)
    if 0 <= room < longest:
        found.append(
            f"a window of {plan.window} tuples may carry {room} bytes at C/R "
            f"{plan.capacity_ratio:g}, less than a whole tuple of {longest}; raise "
            f"parameters.window_tuples to {math.ceil(plan.window * longest / max(room, 1))} or more"
        )
    return found + [_shortfall(plan, guarantee) for guarantee in _unmet(plan)]


def _unmet(plan: Plan) -> list[Guarantee]:
    """Return the guarantees that do not hold at the usual capacity."""
    return [one for one in plan.guarantees if one.holds_from > plan.capacity_ratio]


def _shortfall(plan: Plan, guarantee: Guarantee) -> str:
    """Return by how much a guarantee falls short at the usual capacity, and what would help."""
    ratio, limit, place = plan.capacity_ratio, guarantee.limit, plan.guarantees.index(guarantee)
    kept = plan.kept(ratio)[place]
    unit = "reports" if limit == "max_age" else "in its unit"
    if kept >= UNBOUNDED * guarantee.value:
        got = "nothing is promised"
        remedy = "raise the capacity"
    elif kept <= guarantee.value:
        got = "it is lost again at higher loads, where more important guarantees take its bytes"
        remedy = "raise its priority"
    else:
        got = f"{kept:.4g} {unit} are, {kept / guarantee.value - 1:.0%} more"
        remedy = f"allow a {limit} of {kept:.4g}, raise the capacity"
    first = min(one.priority for one in plan.guarantees)
    if guarantee.priority == first and len({one.priority for one in plan.guarantees}) > 1:
        remedy += ", raise its priority" if "priority" not in remedy else ""
    return (
        f"{guarantee.name}: {limit} {guarantee.value:g} cannot be kept at C/R {ratio:g}, where "
        f"{got}; it holds from C/R {guarantee.holds_from:.3g} on; {remedy}, or ask less of others"
    )


def _rounded(plan: Plan, parameters: Parameters) -> bool:
    """Whether the bytes of a stream may have been too many units for the exact frontier."""
    units = menu_of(parameters).units
    sizes = [stream.sizes[stream.items] for stream in plan.streams]
    return any(
        int(size.sum()) * units // max(1, int(np.gcd.reduce(size))) > path.MAX_UNITS
        for size in sizes
        if len(size)
    )


def plan_samples(samples: Mapping[str, Any], parameters: Parameters) -> Plan:
    """Make a plan straight from samples, without a definition: columns are what they seem to be.

    >>> from planning.attributes.parameters import Parameters
    >>> i = np.arange(600)
    >>> samples = {"station": i % 6, "level": i // 60, "load": (i * 7919) % 997}
    >>> stations = plan_samples(samples, Parameters(method="periods"))
    >>> stations.streams[0].cid, stations.shed_set(0.8)
    (('station',), ('level',))
    """
    return plan_profiles(profile_observed(samples, parameters), parameters)


def plan_profiles(statistics: Statistics, parameters: Parameters) -> Plan:
    """Make a plan from profiles and family parameters alone."""
    sources = sources_of(statistics, parameters)
    menu, weight = sources[0].menu, sources[0].weight
    guaranteed = any(source.limits for source in sources)
    share = path.pooled if parameters.inter_stream == "pooled" else path.proportional
    if parameters.method == "paper":
        points = path.proportional([ranking.nested_schemes(source) for source in sources])
    elif guaranteed:
        points = Levels(sources, share).frontier(parameters.frontier_points)
    else:
        points = share([source.best() for source in sources])
    if not guaranteed:
        points = points.thinned(parameters.frontier_points)
    made = Plan(
        method=parameters.method,
        attributes=tuple(a.name for a in statistics.streams[0].attributes),
        kinds=tuple(a.kind for a in statistics.streams[0].attributes),
        weight=weight,
        stream_attribute=parameters.stream_attribute or "",
        streams=tuple(source.stream for source in sources),
        window=channel_window(statistics, parameters),
        tuple_bytes=tuple_bytes(sources),
        refresh=menu.refresh,
        capacity_ratio=parameters.capacity_ratio,
        option_period=frozen_ints(menu.period),
        option_band=frozen(menu.band),
        ratio=frozen(points.ratio),
        loss=frozen(points.loss / total_weight(sources)),
        choice=points.choice,
        thinning=frozen_ints(points.thinning),
        complete=points.complete,
    )
    return _guaranteed(made, sources)


def _guaranteed(plan: Plan, sources: Sequence[Source]) -> Plan:
    """Return a plan with its guarantees, the most important first, and whence each holds."""
    asked = [
        Guarantee(f"attribute {plan.name_of(s, j)}", limit, value, limits.priority, NOWHERE)
        for s, source in enumerate(sources)
        for j, limits in sorted(source.limits.items())
        for limit, value in limits.asked().items()
    ]
    if not asked:
        return plan
    asked.sort(key=lambda one: -one.priority)
    plan = replace(plan, guarantees=tuple(asked))
    kept = np.array([plan.kept(load) for load in (*plan.ratio.tolist(), 1.0)])
    late = kept > np.array([one.value for one in asked]) * (1.0 + HOLDS_SLACK)
    first = [int(np.flatnonzero(broken).max(initial=-1)) + 1 for broken in late.T]
    loads = np.append(plan.ratio, 1.0)
    holds = (replace(one, holds_from=float(loads[k])) for one, k in zip(asked, first, strict=True))
    return replace(plan, guarantees=tuple(holds))

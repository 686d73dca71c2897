"""From a profile to a plan: every method is a menu of options on one exact frontier."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from planning.arrays import frozen, frozen_ints
from planning.attributes.channel import Source, pooled, proportional
from planning.attributes.menu import Menu, menu_of
from planning.attributes.plan import NEVER, PERIODIC, Plan, Stream
from planning.attributes.statistics import (
    Statistics,
    StreamProfile,
    profile_observed,
    window_of,
)
from planning.errors import StatisticsError


def plan(statistics: Statistics, definition: Any) -> Plan:
    """Make the plan of a stream, or of several that share a channel."""
    for stream in statistics.streams:
        names = tuple(a.name for a in stream.attributes)
        if names != definition.attribute_names:
            raise StatisticsError(
                f"statistics must profile the attributes {', '.join(definition.attribute_names)}, "
                f"got {', '.join(names)}; run the statistics stage again"
            )
    return plan_profiles(statistics, definition.parameters)


def plan_samples(samples: Mapping[str, Any], parameters: Any) -> Plan:
    """Make a plan straight from samples, without a definition: columns are what they seem to be.

    >>> from planning.attributes.parameters import Parameters
    >>> i = np.arange(600)
    >>> samples = {"station": i % 6, "level": i // 60, "load": (i * 7919) % 997}
    >>> found = plan_samples(samples, Parameters(method="periods"))
    >>> found.streams[0].cid, found.shed_set(0.8)
    (('station',), ('level',))
    """
    return plan_profiles(profile_observed(samples, parameters), parameters)


def plan_profiles(statistics: Statistics, parameters: Any) -> Plan:
    """Make a plan from profiles and family parameters alone."""
    total = sum(s.tuples for s in statistics.streams)
    names = tuple(a.name for a in statistics.streams[0].attributes)
    weight = frozen([parameters.weights.get(name, 1.0) for name in names])
    menu = menu_of(parameters)
    window = _window(statistics, parameters)
    sources = []
    for found in statistics.streams:
        stream = _stream(found, parameters, menu, found.tuples / total)
        named = np.isin(names, (*stream.cid, parameters.stream_attribute or ""))
        informative = stream.present & (stream.sizes > 0) & ~named
        sources.append(
            Source(found, stream, menu, weight, informative, window * stream.share)
        )
    tuple_bytes = math.fsum(s.stream.share * s.stream.full_bytes for s in sources)
    if tuple_bytes <= 0:
        raise StatisticsError("attributes must take bytes, got a stream of size 0; set sizes")
    if parameters.method == "paper":
        points = proportional([source.ranked() for source in sources])
    else:
        parts = [source.best(parameters.method == "on_change") for source in sources]
        share = pooled if parameters.inter_stream == "pooled" else proportional
        points = share(parts)
    points = points.thinned(parameters.frontier_points)
    return Plan(
        method=parameters.method,
        attributes=names,
        kinds=tuple(a.kind for a in statistics.streams[0].attributes),
        weight=weight,
        stream_attribute=parameters.stream_attribute or "",
        streams=tuple(source.stream for source in sources),
        window=window,
        tuple_bytes=tuple_bytes,
        refresh=parameters.refresh_reports if parameters.method != "paper" else NEVER,
        capacity_ratio=parameters.capacity_ratio,
        option_period=frozen_ints(menu.period),
        option_band=frozen(menu.band),
        ratio=frozen(points.ratio),
        loss=frozen(points.loss / (math.fsum(s.total_weight for s in sources) or 1.0)),
        choice=points.choice,
        thinning=frozen_ints(points.thinning),
    )


def _window(statistics: Statistics, parameters: Any) -> int:
    """Return W: one cycle of every stream of the channel, unless the user says otherwise."""
    if parameters.window_tuples is not None:
        return int(parameters.window_tuples)
    return sum(window_of(s.cycle, parameters) for s in statistics.streams)


def _stream(found: StreamProfile, parameters: Any, menu: Menu, share: float) -> Stream:
    names = [a.name for a in found.attributes]
    sizes = np.array([a.size for a in found.attributes], dtype=np.int64)
    shared = parameters.stream_attribute is not None
    # On a shared channel a column that a stream never fills belongs to another stream.
    present = np.array([not shared or a.present > 0 for a in found.attributes])
    always = {*found.cycle.cid, *parameters.must_keep, parameters.stream_attribute}
    kept = np.array([name in always for name in names]) | (sizes == 0)
    items = int((present & ~kept).sum())
    bare = set(menu.period) <= {1, NEVER} and set(menu.band) == {PERIODIC}
    return Stream(
        name=found.name,
        cid=found.cycle.cid,
        cycle_length=found.cycle.length,
        share=share,
        header_bytes=0 if bare else -(-items // 8),
        sizes=frozen_ints(sizes),
        present=present,
        kept=kept,
        scale=frozen([a.scale for a in found.attributes]),
        score=frozen([a.score for a in found.attributes]),
    )

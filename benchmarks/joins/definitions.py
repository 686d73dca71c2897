"""Stream definitions for the joins that are measured."""

from __future__ import annotations

from collections.abc import Sequence

from planning.families import Definition
from planning.joins.model import Combine, Condition, Windows
from planning.joins.parameters import Parameters
from planning.streams import parse

MOST_ITEMS = 10


def pair_definition(
    windows: Windows,
    condition: Condition,
    *,
    vocabulary: int,
    items: int = MOST_ITEMS,
    utilities: Sequence[float] = (1.0,),
    combine: Combine = "max",
    sizes: Sequence[int] = (),
) -> Definition[Parameters]:
    """Return the definition of a pair of streams: sets of up to ``items``, a type per utility.

    >>> definition = pair_definition(Windows((20, 20), 1), Condition("overlap", 3), vocabulary=100)
    >>> definition.parameters.items[:2], definition.parameters.sizes
    (('item_0', 'item_1'), ())
    """
    names = [f"item_{k}" for k in range(items)]
    types = [f"type {z}" for z in range(len(utilities))]
    typed = [{"name": "type", "type": "category", "values": types}] if len(types) > 1 else []
    document = {
        "stream": "pair",
        "family": "joins",
        "parameters": {
            "type": "type" if typed else None,
            "items": names,
            "condition": condition.kind,
            "threshold": condition.threshold,
            "window_s": list(windows.window_s),
            "basic_window_s": windows.basic_window_s,
            "origin_s": windows.origin_s,
            "utilities": [float(utility) for utility in utilities],
            "combine": combine,
            "size_bounds": list(sizes),
        },
        "attributes": [
            {"name": "stream", "type": "category", "values": ["0", "1"]},
            {"name": "time_s", "domain": [-1e12, 1e12]},
            *typed,
            *({"name": name, "type": "int", "domain": [-1, vocabulary - 1]} for name in names),
        ],
    }
    return parse(document, "pair").of(Parameters)

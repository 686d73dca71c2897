"""Deciding without a plan: thin evenly, or let pass, and never beyond the limit."""

from __future__ import annotations

from typing import Any

import numpy as np

from planning.arrays import BoolArray
from planning.pacing import ONE, Pacer
from planning.shedder import Decision


class Uniform:
    """Keeps a share of all items, evenly spaced, or by their keys.

    >>> uniform = Uniform(parts=())
    >>> uniform.decide(rows=8, units=8, share=0.25, most=8).keep.tolist()
    [False, False, False, True, False, False, False, True]
    >>> uniform.decide(rows=4, units=4, share=1.0, most=2).keep.tolist()
    [False, True, False, True]
    """

    def __init__(self, parts: tuple[str, ...]) -> None:
        self.parts = parts
        self._pacer = Pacer(1.0)

    def decide(
        self,
        rows: int,
        units: int,
        share: float,
        most: int,
        draws: Any = None,
        weighted: bool = False,
    ) -> Decision:
        """Keep ``share`` of the items, all parts of them, within ``most`` units."""
        if draws is None:
            self._pacer.fraction = share
            keep = self._pacer.next(rows)
        else:
            keep = np.asarray(draws >= np.ceil((1.0 - share) * ONE))
        wanted = int(np.count_nonzero(keep))
        each = max(-(-units // rows), 1) if rows else 1  # units per item, rounded up
        affordable = max(most, 0) // each
        if wanted > affordable:
            keep = evenly(keep, affordable)
        kept = min(wanted, affordable)
        weight = None
        if weighted:
            chance = share * (kept / wanted if wanted else 1.0)
            weight = np.where(keep, 1.0 / chance if chance else 0.0, 0.0)
        if self.parts:
            keep = np.repeat(keep[:, None], len(self.parts), axis=1)
        return Decision(keep, kept * each, (wanted - kept) * each, weight)


def evenly(keep: BoolArray, most: int) -> BoolArray:
    """Return a mask with only ``most`` of the items that ``keep`` has, evenly spaced.

    >>> evenly(np.array([True, True, False, True, True]), 2).tolist()
    [False, True, False, False, True]
    """
    places = np.flatnonzero(keep)
    chosen = (np.arange(1, most + 1) * len(places)) // max(most, 1) - 1
    allowed = np.zeros(len(keep), dtype=np.bool_)
    allowed[places[chosen]] = True
    return allowed

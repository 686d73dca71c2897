"""Decisions on single tuples, in plain Python: a compiled call would cost more than the decision.

Lists mirror the arrays of the shedder while tuples come one by one; ``flush`` writes them back
before a batch. Decisions are the same, bit for bit, as those on a batch.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from planning.arrays import IntArray
from planning.pacing import ONE, ONE_BITS
from planning.sifter import kernels
from planning.sifter.lookup import Lookup
from planning.sifter.plan import Plan


class Single:
    """The single-tuple side of a shedder."""

    def __init__(
        self, plan: Plan, tables: Lookup, state: Any, ledger: IntArray, correct: Callable[[], None]
    ) -> None:
        self.plan, self.tables, self.state, self.ledger = plan, tables, state, ledger
        self.correct = correct
        self.stale = True  # the lists are older than the arrays
        self.dirty = False  # the arrays are older than the lists
        self.columns: tuple[list[int], ...] = ([], [], [], [])  # of the state
        self.entries: list[int] = []  # of the ledger

    def flush(self) -> None:
        """Write the lists back to the arrays."""
        if not self.dirty:
            return
        for k, column in enumerate(self.columns):
            self.state[:, k] = column
        self.ledger[:] = self.entries
        self.dirty, self.stale = False, True

    def refresh(self) -> None:
        """Read the arrays into the lists, which stay the same objects."""
        for k, column in enumerate(self.columns):
            column[:] = self.state[:, k].tolist()
        self.entries[:] = self.ledger.tolist()
        self.stale, self.dirty = False, True

    def close_block(self) -> None:
        """Let the shedder correct its steps after a block of tuples."""
        self.flush()
        self.correct()
        self.refresh()

    def decider(self, shedder: Any) -> Callable[[Any], bool]:
        """Return the function that decides on one tuple."""
        plan = self.plan
        plain = (
            len(plan.space.axes) == 2
            and self.tables.kind == "cells"
            and not len(plan.pins.low)
            and not any(plan.partition.orders)
            and shedder.fleet is None
        )
        return self._plain_decider(shedder) if plain else lambda item: _offer(shedder, item)

    def _plain_decider(self, shedder: Any) -> Callable[[Any], bool]:
        """Return the fast function for two numeric axes; the ledger's places are written out."""
        tables = self.tables
        xs = tables.cuts[0][np.isfinite(tables.cuts[0])].tolist()
        ys = tables.cuts[1][np.isfinite(tables.cuts[1])].tolist()
        stride, cells = int(tables.stride[0]), tables.cells.tolist()
        unplaced, block = self.plan.regions, kernels.BLOCK
        credit, step, offered, cut = self.columns  # in the order of kernels.CREDIT, STEP, ...
        entries, one, bits = self.entries, ONE, ONE_BITS

        def decide(item: Any) -> bool:
            if self.stale:
                self.refresh()
            try:
                x, y = item
                if x == x and y == y:
                    region = cells[bisect_right(xs, x) * stride + bisect_right(ys, y)]
                else:
                    region = unplaced
            except (TypeError, ValueError):
                return _offer(shedder, item)
            before = credit[region]
            after = before + step[region]
            credit[region] = after
            offered[region] += 1
            debt = entries[0] - entries[1]
            if debt < entries[3]:
                debt = entries[3]
            keep: bool = before >> bits == after >> bits
            if keep:
                entries[5] += 1
                if debt + one > entries[2]:
                    keep = False
                    cut[region] += 1
                else:
                    debt += one
            entries[0] = debt
            entries[4] += 1
            if entries[4] >= block:
                self.close_block()
            return keep

        return decide


def _offer(shedder: Any, item: Any) -> bool:
    """Decide on one tuple as on a batch of one."""
    if isinstance(item, Mapping):
        return bool(shedder.offer({name: [value] for name, value in item.items()})[0])
    try:
        points = np.asarray([item], dtype=np.float64)
    except (TypeError, ValueError):
        points = np.empty((1, 0))
    return bool(shedder.offer(points)[0])

"""Decisions on single tuples, in plain Python: a compiled call would cost more than the decision.

Lists mirror the arrays of the shedder while tuples come one by one; ``flush`` writes them back
before a batch. Decisions are the same, bit for bit, as those on a batch.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from planning.arrays import IntArray
from planning.pacing import ONE, ONE_BITS
from planning.shedder import BaseShedder
from planning.sifter import kernels
from planning.sifter.lookup import Lookup
from planning.sifter.plan import Plan

LOOKS = 64  # blocks between two times that the lists are written back


class Single:
    """The single-tuple side of a shedder."""

    def __init__(
        self, plan: Plan, tables: Lookup, state: Any, ledger: IntArray, levels: Any,
        set_level: Callable[[], None],
    ) -> None:  # fmt: skip
        self.plan, self.tables, self.state, self.ledger = plan, tables, state, ledger
        self.levels, self.set_level = levels, set_level
        self.stale = True  # the lists are older than the arrays
        self.dirty = False  # the arrays are older than the lists
        self.columns: tuple[list[int], ...] = ([], [], [])  # of the state
        self.entries: list[int] = []  # of the ledger
        self.rows: dict[int, list[int]] = {}  # of the levels
        self.step: list[int] = []  # the row in force
        self.looks = 0

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
        self.set_level()
        for k, column in enumerate(self.columns):
            column[:] = self.state[:, k].tolist()
        self.entries[:] = self.ledger.tolist()
        level = self.entries[kernels.LEVEL]
        self.step = self.rows[level] = self.levels[level].tolist()
        self.stale, self.dirty, self.looks = False, True, 0

    def forget(self) -> None:
        """Take note that the steps are others now."""
        self.stale = True
        self.rows.clear()

    def look(self) -> None:
        """Look at the ledger after a block of tuples; now and then, write back."""
        kernels.widen(self.entries)
        kernels.look(self.entries)
        level = self.entries[kernels.LEVEL]
        self.looks += 1
        if level in self.rows and self.looks < LOOKS:
            self.step = self.rows[level]
        else:
            self.flush()
            self.refresh()

    def decider(self, shedder: Any) -> Callable[[Any], Any]:
        """Return the function that decides on one tuple."""
        plan, tables = self.plan, self.tables
        plain = (
            len(plan.space.axes) == 2
            and tables.kind == "cells"
            and np.isfinite(tables.cuts[:, 0]).all()  # what is no number then fails to compare
            and not len(plan.pins.low)
            and not any(plan.partition.orders)
            and shedder.fleet is None
        )
        return self._plain_decider(shedder) if plain else partial(BaseShedder.offer_one, shedder)

    def _plain_decider(self, shedder: Any) -> Callable[[Any], bool]:
        """Return the fast function for two numeric axes; the ledger's places are written out."""
        tables = self.tables
        xs = tables.cuts[0][np.isfinite(tables.cuts[0])].tolist()
        ys = tables.cuts[1][np.isfinite(tables.cuts[1])].tolist()
        stride, cells = int(tables.stride[0]), tables.cells.tolist()
        first, second = self.plan.space.names
        unplaced = self.plan.regions
        credit, offered, cut = self.columns  # in the order of kernels.CREDIT, OFFERED, CUT
        entries, one, bits = self.entries, ONE, ONE_BITS

        def decide(item: Any) -> bool:
            if self.stale:
                self.refresh()
            try:
                if type(item) is dict:
                    x, y = item[first], item[second]
                else:
                    x, y = item
                if x == x and y == y:
                    region = cells[bisect_right(xs, x) * stride + bisect_right(ys, y)]
                else:
                    region = unplaced
            except (TypeError, ValueError, KeyError):
                return bool(BaseShedder.offer_one(shedder, item))
            before = credit[region]
            after = before + self.step[region]
            credit[region] = after
            offered[region] += 1
            debt = entries[0] - entries[1]
            if debt < entries[3]:
                debt = entries[3]
            keep: bool = before >> bits == after >> bits
            if keep:
                if debt + one > entries[2]:
                    keep = False
                    cut[region] += 1
                else:
                    debt += one
            entries[0] = debt
            entries[4] += 1
            if entries[4] == entries[5]:
                entries[4] = 0
                self.look()
            return keep

        return decide

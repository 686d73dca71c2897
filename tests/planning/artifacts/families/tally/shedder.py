"""The shedder: fails on purpose when a value is negative."""

import numpy as np

from planning.batches import Schema
from planning.shedder import BaseShedder, Decision, ItemCounters


class Shedder(BaseShedder):
    def __init__(self, plan, load=1.0):
        self.offered = self.dropped = 0
        super().__init__(plan, load)

    @property
    def schema(self):
        return Schema(("value",))

    @property
    def counters(self):
        return ItemCounters(np.array(self.offered), np.array(self.dropped))

    def probe(self, rows):
        return {"value": np.linspace(0.0, 1.0, rows)}

    def _install(self, plan):
        if plan.label == "unusable":
            raise ValueError("this plan cannot be used")
        self._plan = plan

    def set_load(self, load):
        self._load = load
        self._setting = self._plan.at(load)

    def adopt(self, old):
        self.offered, self.dropped = old.offered, old.dropped

    def decide(self, batch, *, draws=None, most=1 << 62, weighted=False):
        values = batch.numbers("value")
        if (values < 0).any():
            raise ValueError("negative value")
        keep = values >= self._setting
        wanted = int(keep.sum())
        keep[np.flatnonzero(keep)[most:]] = False
        self.offered += len(keep)
        self.dropped += int((~keep).sum())
        return Decision(keep, int(keep.sum()), wanted - int(keep.sum()))

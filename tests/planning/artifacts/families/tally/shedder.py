"""The shedder: fails on purpose when a value is negative."""

import numpy as np


class Shedder:
    def __init__(self, plan, load=1.0):
        self.plan = plan
        self.load = load
        self.counters = {"offered": 0}

    def set_load(self, load):
        self.load = load

    def swap(self, plan):
        if plan.label == "unusable":
            raise ValueError("this plan cannot be used")
        self.plan = plan

    def offer(self, batch):
        values = np.asarray(batch, dtype=np.float64)
        if (values < 0).any():
            raise ValueError("negative value")
        self.counters["offered"] += len(values)
        return values >= self.plan.at(self.load)

    def offer_one(self, item):
        return bool(self.offer([item])[0])

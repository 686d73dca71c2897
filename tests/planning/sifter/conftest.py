"""Streams and workloads for the sifter's tests."""

import numpy as np
import pytest

from planning import streams
from planning.sifter.demo import Settings, Workload


def define(queries=(), parameters=None, attributes=None):
    document = {
        "stream": "t",
        "family": "sifter",
        "attributes": attributes
        or [{"name": "x", "domain": [0, 1]}, {"name": "y", "domain": [0, 1]}],
        "queries": {"inline": list(queries)},
        "parameters": parameters or {},
    }
    return streams.parse(document, "t.yaml")


def as_entries(queries):
    return [
        {
            "ranges": {n: [float(a), float(b)] for n, a, b in zip("xyuv", low, high, strict=False)},
            "weight": float(w),
            "qos_slope": float(s),
        }
        for low, high, w, s in zip(
            queries.low, queries.high, queries.weight, queries.slope, strict=True
        )
    ]


class Scene:
    """A generated scenario with its definition, samples and fresh tuples."""

    def __init__(self, seed=1, samples=2000, fresh=20_000, queries=200, **parameters):
        self.workload = Workload(Settings(data="SKEW", query="SKEW", queries=queries), seed)
        self.definition = define(as_entries(self.workload.queries), parameters)
        self.samples = self.columns(self.workload.tuples(samples))
        self.fresh = self.workload.tuples(fresh)

    @staticmethod
    def columns(points):
        return {"x": points[:, 0], "y": points[:, 1]}

    def plan(self, **parameters):
        from planning.sifter import planner, statistics

        definition = self.definition.with_parameters(parameters) if parameters else self.definition
        return planner.plan(statistics.build(self.samples, definition), definition)


@pytest.fixture(scope="session")
def scene():
    return Scene()


@pytest.fixture(scope="session")
def make():
    return define


@pytest.fixture(scope="session")
def entries_of():
    return as_entries


@pytest.fixture
def rng():
    return np.random.default_rng(5)

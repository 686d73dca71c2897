"""The set-up of Section VI: tuples to plan from, queries, and fresh tuples to measure plans on.

Loss is 1 - V*(Q), measured on fresh tuples that are actually shed, over the loss of random dropping
at the same load; the server drops blindly whatever passes above z. Shedders run without correction
here, so that partitionings are compared as they are. Benchmarks and the reproduced figures
(:mod:`benchmarks.sifter.experiments`) are measured in scenes.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cache
from typing import Any

import numpy as np

from benchmarks.sifter import recorded
from planning import streams
from planning.arrays import FloatArray
from planning.families import Definition
from planning.sections import Attribute
from planning.sifter import planner, statistics
from planning.sifter.demo import Distribution, Settings, Workload
from planning.sifter.parameters import Parameters
from planning.sifter.plan import Plan
from planning.sifter.queries import Queries
from planning.sifter.shedder import Shedder
from planning.sifter.simulate import Bench

WORKLOADS: tuple[tuple[Distribution, Distribution], ...] = (
    ("UNIF", "SKEW"),
    ("SKEW", "UNIF"),
    ("SKEW", "SKEW"),
    ("UNIF", "UNIF"),
)
PAPER = ("uniform_grid", "data_equi_depth", "query_equi_depth", "qdpart")
LABELS = {
    "uniform_grid": "UGRID",
    "data_equi_depth": "DEDP",
    "query_equi_depth": "QEDP",
    "qdpart": "QDPart",
    "cost_tree": "cost tree",
}


def unit_space(dimensions: int) -> tuple[Attribute, ...]:
    """Return the attributes of [0, 1]**n."""
    return tuple(Attribute(name=f"x{k}", domain=(0.0, 1.0)) for k in range(dimensions))


@cache  # times of construction begin after reading the definition
def definition_for(
    attributes: tuple[Attribute, ...], partitioner: str, regions: int, samples: int, **more: Any
) -> Definition[Parameters]:
    """Return a stream with each partitioner as it is meant: the paper does not calibrate."""
    parameters = {
        "partitioner": partitioner,
        "regions": regions,
        "sample_size": max(samples, 2),
        "calibrate": partitioner == "cost_tree",
        **more,
    }
    document = {
        "stream": "scene",
        "family": "sifter",
        "attributes": [attribute.model_dump() for attribute in attributes],
        "parameters": parameters,
    }
    return streams.parse(document, "scene").of(Parameters)


class Scene:
    """Samples to plan from, queries, and fresh tuples on which plans are measured."""

    def __init__(
        self,
        samples: FloatArray,
        fresh: FloatArray,
        asked: Queries,
        attributes: tuple[Attribute, ...],
    ) -> None:
        self.samples, self.fresh, self.queries = samples, fresh, asked
        self.attributes = attributes
        self.bench = Bench(fresh, asked)

    def plan(self, partitioner: str, regions: int, **more: Any) -> Plan:
        """Make a plan with the named partitioner."""
        count = len(self.samples)
        definition = definition_for(self.attributes, partitioner, regions, count, **more)
        made = statistics.of_points(self.samples, definition, self.queries)
        return planner.plan(made, definition)

    def random_loss(self, z: float) -> float:
        """Return the expected 1 - V* of random dropping."""
        return (1.0 - z) * float(self.queries.coefficient.sum())

    def losses(self, plan: Plan, loads: Sequence[float]) -> FloatArray:
        """Return the loss at each load over random dropping's."""
        lost = []
        for z in loads:
            keep = Shedder(plan, z, correct=False).offer(self.fresh)
            loss = 1.0 - self.bench.quality(keep, z, self.bench.elsewhere(plan, z))
            lost.append(loss / self.random_loss(z))
        return np.array(lost)


def drawn(settings: Settings, seed: int, samples: int = 1000, fresh: int = 100_000) -> Scene:
    """Return a scene of the paper's generator."""
    workload = Workload(settings, seed)
    seen, unseen = workload.tuples(samples), workload.tuples(fresh)
    return Scene(seen, unseen, workload.queries, unit_space(settings.dimensions))


def flown(seed: int, points: FloatArray, samples: int = 1000, fresh: int = 100_000) -> Scene:
    """Return a scene of the real flights with generated queries."""
    start = (samples + fresh) * seed % (len(points) - samples - fresh)
    part = points[start : start + samples + fresh]
    queries = recorded.queries(points, seed)
    return Scene(part[:samples], part[samples:], queries, recorded.attributes())


def loss_table(
    partitioners: Iterable[str],
    regions: Iterable[int],
    loads: Sequence[float],
    seeds: Iterable[int],
    workloads: Iterable[tuple[Distribution, Distribution]] = WORKLOADS,
    fresh: int = 100_000,
    **settings: Any,
) -> dict[tuple[str, str, int, str], FloatArray]:
    """Return losses (seeds, loads) for each data and query distribution, l and partitioner."""
    table: dict[tuple[str, str, int, str], list[FloatArray]] = {}
    partitioners, regions = tuple(partitioners), tuple(regions)
    for data, query in workloads:
        for seed in seeds:
            scene = drawn(Settings(data=data, query=query, **settings), seed, fresh=fresh)
            for count in regions:
                for name in partitioners:
                    row = scene.losses(scene.plan(name, count), loads)
                    table.setdefault((data, query, count, name), []).append(row)
    return {key: np.array(rows) for key, rows in table.items()}

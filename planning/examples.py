"""Small plans to try things on: the demo streams of ``dags/streams``, planned in memory.

A stream is planned once per process, in under a second, and the same call returns the same plan.
The examples in the docstrings of the library use these functions; so can you.
"""

from __future__ import annotations

import itertools
import tempfile
from functools import cache
from pathlib import Path
from types import MappingProxyType

from upath import UPath

from planning import families
from planning.arrays import Columns
from planning.artifacts import SigningKey, Store, TrustedKeys
from planning.errors import InvalidInput
from planning.families import Plan, Statistics
from planning.home import Home
from planning.samples import in_domain, read_columns, take
from planning.stages.run import Run
from planning.streams import StreamDefinition, load_folder

STREAMS = Path(__file__).resolve().parents[1] / "dags" / "streams"
LOADS = (0.3, 0.5, 0.7)
_stores = itertools.count(1)


@cache
def demo_definition(family: str) -> StreamDefinition:
    """Return the definition of a family's demo stream.

    >>> demo_definition("sifter").attribute_names
    ('price', 'volume')
    """
    families.family(family)
    for definition in load_folder(STREAMS)[0]:
        if definition.demo and definition.family == family:
            return definition
    raise InvalidInput(
        f"no demo stream of family {family} in {STREAMS}; the examples need the repository, not "
        "only the installed library"
    )


@cache
def demo_samples(family: str, batch: int = 0) -> Columns:
    """Return a batch of the demo stream: clean rows as columns, read-only.

    >>> ticks = demo_samples("sifter")
    >>> sorted(ticks), len(ticks["price"])
    (['price', 'volume'], 19984)
    """
    definition = demo_definition(family)
    with tempfile.TemporaryDirectory() as folder:
        families.family(family).room("demo").land(UPath(folder), batch, definition)
        columns = read_columns(UPath(folder), definition.sample_columns)
    clean = take(columns, in_domain(columns, definition))
    for values in clean.values():
        values.flags.writeable = False
    return MappingProxyType(clean)


@cache
def demo_statistics(family: str) -> Statistics:
    """Return the statistics of the demo stream's first batch.

    >>> demo_statistics("sifter").samples
    19984
    """
    room = families.family(family).room("statistics")
    return room.build(demo_samples(family), demo_definition(family))


@cache
def demo_plan(family: str) -> Plan:
    """Return the plan made from the demo stream's first batch.

    >>> plan = demo_plan("sifter")
    >>> plan.regions, plan.predicted_quality(0.5) > 0.8  # random dropping would have 0.5
    (16, True)
    """
    return families.family(family).room("planner").plan(
        demo_statistics(family), demo_definition(family)
    )


def demo_store(family: str, versions: int = 1) -> tuple[Store, SigningKey]:
    """Return a new in-memory store with the demo plan published in it, and its signing key.

    >>> store, signer = demo_store("sifter", versions=2)
    >>> store.streams(), store.versions("ticks")
    (('ticks',), (1, 2))
    """
    root = f"memory://headgate-example-{next(_stores)}"
    signer = SigningKey.load_or_create(f"{root}/keys")
    store = Store(f"{root}/plans", TrustedKeys.of(signer))
    plan = demo_plan(family)
    for version in range(1, versions + 1):
        store.publish(
            demo_definition(family).stream,
            plan,
            family=family,
            signer=signer,
            created_at=f"2026-01-02T03:{version:02d}:00Z",
            predicted=[(load, plan.predicted_quality(load)) for load in LOADS],
        )
    return store, signer


def demo_run(home: Home, family: str, batch: int = 0) -> Run:
    """Land and collect a batch of the demo stream in ``home``; return the run.

    >>> from planning.stages import local, solve
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     run = demo_run(Home.at(folder), "sifter")
    ...     local.validate(run)
    ...     local.statistics(run)
    ...     solve.solve(run)["regions"]
    16
    """
    from planning.stages.collect import collect

    definition = demo_definition(family)
    families.family(family).room("demo").land(home.resolve(definition.landing), batch, definition)
    return collect(home, definition, f"example-{batch}")

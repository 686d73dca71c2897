"""Do promises hold? A plan is published from one stretch of a stream and tried on the next.

From the demo streams and every recorded one, batches are taken at several places. A part of each is
put aside: rows, or objects, that nothing sees. The rest goes through the whole pipeline; what the
published version promises at five loads is compared with what it achieves on the part put aside,
and on the batch that follows. Where the order of rows matters, only the latter can be tried.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from upath import UPath

from benchmarks import datasets
from planning import families
from planning.arrays import BoolArray, Columns
from planning.console import print_table
from planning.demos import land_batch
from planning.errors import InvalidInput
from planning.examples import demo_definition
from planning.home import Home
from planning.samples import in_domain, read_columns, take, typed
from planning.sampling import in_holdout, stable_keys
from planning.stages import collect, gate, local, publish, solve
from planning.streams import StreamDefinition, parse

LOADS = (0.1, 0.3, 0.5, 0.7, 0.9)
SHARE = 0.95
BATCHES = 4
ASIDE = 0.2


@dataclass(frozen=True, slots=True)
class Stream:
    """Batches of a stream, each with the one that follows it."""

    name: str
    definition: StreamDefinition
    batches: list[tuple[Columns, Columns]]


@dataclass(frozen=True, slots=True)
class Kept:
    """What was promised and achieved at one load."""

    stream: str
    batch: int
    following: bool  # on the next batch, or on what was put aside of the same one
    load: float
    promised: float
    low: float
    high: float
    achieved: float
    random: float
    strongest: str
    best: float
    decision: str

    @property
    def kept(self) -> bool:
        """Whether what was achieved lies in the interval."""
        return self.low <= self.achieved <= self.high

    @property
    def promise_made(self) -> bool:
        """Whether there is an interval; not if the held-out samples were too few."""
        return self.high > 0.0


def streams(family: str, quick: bool = False) -> Iterator[Stream]:
    """Yield the demo stream of a family, and the recorded ones that are there."""
    yield _demo(family)
    for make in RECORDED[family]:
        try:
            yield make()
        except InvalidInput as error:
            print(f"left out: {error}")
        if quick:
            return


def trials(stream: Stream) -> Iterator[Kept]:
    """Publish from each batch, and try each version on what it has not seen."""
    definition = stream.definition
    evaluate = families.family(definition.family).room("simulate").evaluate
    with tempfile.TemporaryDirectory() as folder:
        for k, (batch, following) in enumerate(stream.batches):
            home = Home.at(f"{folder}/{k}")
            aside = _aside(batch, stream.definition)
            land_batch(home.resolve(stream.definition.landing), 0, take(batch, ~aside))
            run = collect.collect(home, stream.definition, "only")
            for stage in (local.validate, local.statistics, solve.solve):
                stage(run)
            honest = gate.gate(home, run)
            gate.gate(home, run, force=True)
            publish.publish(home, run, created_at="2026-01-02T03:04:05Z")
            published = home.store().load(stream.definition.stream)
            unseen = {False: take(batch, aside), True: following}
            for later, columns in unseen.items():
                if not later and not aside.any():
                    continue
                clean = take(typed(columns, definition), in_domain(columns, definition))
                for outcome in evaluate(published.plan, clean, run.definition(), LOADS):
                    promise = published.promised(outcome.load, outcome.predicted_quality)
                    name, best = outcome.strongest
                    yield Kept(
                        stream.name, k, later, outcome.load, promise.quality, promise.low or 0.0,
                        promise.high or 0.0, outcome.quality, outcome.random_quality, name, best,
                        honest["decision"],
                    )  # fmt: skip


def _aside(batch: Columns, definition: StreamDefinition) -> BoolArray:
    """Return which rows nothing may see; none where the order of rows matters."""
    rows = np.arange(len(next(iter(batch.values()))))
    by = [np.asarray(batch[name]) for name in definition.gate.holdout_by] or [rows]
    if definition.gate.holdout_from == "end":
        return np.zeros(len(rows), dtype=np.bool_)
    return ~in_holdout(stable_keys(by), 1.0 - ASIDE)


def run(quick: bool) -> list[dict[str, Any]]:
    """Return the bar: how many promises were kept."""
    every = [k for f in families.NAMES for s in streams(f, quick) for k in trials(s)]
    rows = []
    for following, what in ((False, "unseen rows or objects of the stretch"), (True, "next batch")):
        kept = [k.kept for k in every if k.following == following and k.promise_made]
        share = sum(kept) / max(len(kept), 1)
        rows.append(
            {
                "bar": f"promised quality ± 0.025 holds on the {what}, {len(kept)} (stream, load)",
                "required": f"at least {SHARE:.0%}",
                "measured": f"{share:.1%}",
                "met": share >= SHARE,
            }
        )
    return rows


def _demo(family: str) -> Stream:
    definition = demo_definition(family)
    batches = []
    for batch in range(BATCHES):
        with tempfile.TemporaryDirectory() as folder:
            families.family(family).room("demo").land(UPath(folder), batch, definition)
            batches.append(read_columns(UPath(folder), definition.sample_columns))
    pairs = list(zip(batches, batches[1:], strict=False))
    return _stream(f"{definition.stream} (demo)", definition.model_dump(mode="json"), pairs)


def _stream(name: str, document: dict[str, Any], batches: list[tuple[Columns, Columns]]) -> Stream:
    document = {
        **document,
        "demo": False,
        "gate": {**document.get("gate", {}), "loads": LOADS},
        "samples": {**document.get("samples", {}), "min_rows": 1, "max_quarantined": 0.5},
    }
    if document.get("queries", {}).get("file"):
        document["queries"] = {**document["queries"], "file": str(
            Path("dags/streams").absolute() / document["queries"]["file"])}  # fmt: skip
    return Stream(name, parse(document, "predictions"), batches)


def _cut(
    columns: Columns, most: int | None = None, whole: int = 1
) -> list[tuple[Columns, Columns]]:
    """Take batches at places that are spread over the stream, each with the next one.

    ``whole`` rows stay together.
    """
    rows = len(next(iter(columns.values()))) // whole
    size = min(rows // BATCHES, (most or rows) // whole)

    def part(start: int) -> Columns:
        first, last = start * whole, (start + size) * whole
        return {name: values[first:last] for name, values in columns.items()}

    starts = [k * (rows - 2 * size) // (BATCHES - 2) for k in range(BATCHES - 1)]
    return [(part(start), part(start + size)) for start in starts]


def _table(name: str) -> Any:
    import pyarrow.parquet as parquet

    return parquet.read_table(datasets.find(name))


def flights_as_tuples() -> Stream:
    """Return a year of flights in order of time, asked for by a thousand queries."""
    from benchmarks.sifter import recorded

    table = _table(recorded.FILE)
    columns = {name: table.column(name).to_numpy() for name in recorded.DOMAINS}
    points = np.column_stack(list(columns.values())).astype(np.float64)
    asked = recorded.queries(points[:: max(len(points) // 50_000, 1)], seed=1)
    inline = [
        {"ranges": {n: [float(a), float(b)] for n, a, b in zip(columns, low, high, strict=True)}}
        for low, high in zip(asked.low, asked.high - 1.0, strict=True)
    ]
    document = {
        "stream": "flights",
        "family": "sifter",
        "attributes": [a.model_dump(mode="json") for a in recorded.attributes()],
        "queries": {"inline": inline},
        "parameters": {"regions": 48},
    }
    return _stream("flights", document, _cut(columns, 20_000))


def _tracks(name: str, file: str, clock: str, side: float, **parameters: float) -> Stream:
    from benchmarks.lira import recorded

    ids, times, x, y = recorded._columns(datasets.find(file), clock)
    order = np.lexsort((ids, times))
    columns = {"object_id": ids, "time": times, "x": x - x.min() + 1, "y": y - y.min() + 1}
    columns = {n: values[order] for n, values in columns.items()}
    columns["speed"] = np.zeros(len(ids))
    width, height = (float(np.ceil(columns[n].max() + 1)) for n in ("x", "y"))
    rng = np.random.default_rng(7)
    inline = []
    for row in rng.choice(len(ids), 40, replace=False):
        at = [float(columns[n][row]) for n in ("x", "y")]
        inline.append(
            {"ranges": {n: [max(0.0, a - side / 2), min(most, a + side / 2)]
                        for n, a, most in zip(("x", "y"), at, (width, height), strict=True)}}
        )  # fmt: skip
    domains = {"object_id": 1e9, "time": 1e9, "x": width, "y": height, "speed": 100.0}
    document = {
        "stream": name,
        "family": "lira",
        "attributes": [
            {"name": n, "type": "int" if n == "object_id" else "float", "domain": [0, high]}
            for n, high in domains.items()
        ],
        "samples": {"expectations": "positions"},
        "queries": {"inline": inline},
        "parameters": parameters,
    }
    # Objects come and go; batches are stretches of time.
    return _stream(name, document, _cut(columns))


def buses() -> Stream:
    """Return the buses of Austin."""
    return _tracks(
        "buses", "lira/austin_buses.parquet", "time_s", 2000.0, regions=100,
        lowest_threshold=25, highest_threshold=1000, fairness_threshold=500,
    )  # fmt: skip


def vessels() -> Stream:
    """Return the ships of the Gulf of Mexico."""
    file = "lira/vessels_gulf_of_mexico_20220103.parquet"
    return _tracks("vessels", file, "timestamp", 20_000.0, regions=100)


def weather() -> Stream:
    """Return the weather stations of Beijing."""
    from benchmarks.attributes import recorded

    document = recorded.definition(cid=("station",)).model_dump(mode="json")
    return _stream("weather", document, _cut(recorded.load(), 24_000, recorded.STATIONS))


def _pair(which: str, most: int | None = None) -> Stream:
    from benchmarks.joins import recorded
    from benchmarks.joins.definitions import MOST_ITEMS, pair_definition

    datasets.find("joins/flights_departures.parquet")
    pair = getattr(recorded, which)(datasets.folder())
    vocabulary = 1 + int(max(pair.left.items.max(), pair.right.items.max()))
    items = 1 if pair.access == "hash" else MOST_ITEMS
    made: Any = pair_definition(
        pair.windows, pair.condition, vocabulary=vocabulary, items=items
    )
    columns: dict[str, list[Any]] = {"stream": [], "time_s": []}
    columns |= {f"item_{k}": [] for k in range(items)}
    for number, part in enumerate((pair.left, pair.right)):
        first = part.first
        sets = np.full((len(part.time), items), -1, dtype=np.int64)
        for k in range(items):
            has = np.diff(first) > k
            sets[has, k] = part.items[first[:-1][has] + k]
        columns["stream"].append(np.full(len(part.time), str(number), dtype=object))
        columns["time_s"].append(part.time)
        for k in range(items):
            columns[f"item_{k}"].append(sets[:, k])
    merged = {name: np.concatenate(parts) for name, parts in columns.items()}
    order = np.argsort(merged["time_s"], kind="stable")
    merged = {name: values[order] for name, values in merged.items()}
    document = {**made.model_dump(mode="json"), "stream": which}
    return _stream(which, document, _cut(merged, most))


def flights_as_pairs() -> Stream:
    """Return departures and arrivals of the same aircraft."""
    return _pair("flights", 40_000)


def wiki_keywords() -> Stream:
    """Return edits with common words."""
    return _pair("wiki_keywords")


def wiki_users() -> Stream:
    """Return edits of the same person."""
    return _pair("wiki_users")


def _rates(name: str, vectors: np.ndarray, document: Mapping[str, Any]) -> Stream:
    from planning.fit import demo

    definition = parse({**document, "stream": name}, name)
    made = demo.counts(0, definition, len(vectors), vectors)
    columns = {n: np.asarray(values) for n, values in made.items()}
    elements = int(np.count_nonzero(columns["period"] == columns["period"][0]))
    return _stream(name, definition.model_dump(mode="json"), _cut(columns, None, elements))


def requests() -> Stream:
    """Return the requests to a web site, on the demo's network."""
    from benchmarks.fit import recorded
    from planning.fit.demo import network

    document = demo_definition("fit").model_dump(mode="json")
    return _rates("site", recorded.web_rates(network()), document)


RECORDED: dict[str, tuple[Any, ...]] = {
    "sifter": (flights_as_tuples,),
    "lira": (buses, vessels),
    "attributes": (weather,),
    "joins": (flights_as_pairs, wiki_users, wiki_keywords),
    "fit": (requests,),
}


def main() -> None:
    """Print every promise."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("families", nargs="*", default=families.NAMES)
    wanted = parser.parse_args().families
    every = []
    for family in wanted:
        for stream in streams(family):
            every += list(trials(stream))
    print_table(
        ["stream", "batch", "on", "load", "promised", "achieved", "kept", "random", "strongest",
         "gate"],
        [
            [k.stream, k.batch, "next batch" if k.following else "unseen", k.load,
             f"{k.promised:.3f}", f"{k.achieved:.3f}",
             "-" if not k.promise_made else "yes" if k.kept else "NO", f"{k.random:.3f}",
             f"{k.strongest} {k.best:.3f}", k.decision]
            for k in every
        ],
    )  # fmt: skip
    for following, what in ((False, "unseen parts of the stretch"), (True, "next batches")):
        tried = [k for k in every if k.following == following]
        kept = [k.kept for k in tried if k.promise_made]
        rest = len(tried) - len(kept)
        print(f"{sum(kept)} of {len(kept)} promises kept on {what}; {rest} not made")
    behind = [k for k in every if k.achieved < k.best - 0.002]
    print(f"behind the strongest simple alternative in {len(behind)} of {len(every)}")


if __name__ == "__main__":
    main()

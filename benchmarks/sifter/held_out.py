"""Real streams beyond the shared ones: plan, random dropping and "queries only" at five loads.

``python -m benchmarks.sifter.held_out FOLDER`` reads, as far as they are in the folder,

- ``earthquakes-23k.csv`` (github.com/plotly/datasets): 23,412 earthquakes since 1965 in order of
  time, with latitude, longitude and magnitude. Queries are drawn around strong ones: two degrees to
  a tenth of the world on a side, half of them for strong earthquakes only.
- ``flights-200k.arrow`` (github.com/vega/vega-datasets): 200,000 flights in the United States in
  2001, with delay, distance and hour of the day. Queries are drawn around late ones, each on two of
  the three attributes, with sides of 2 to 10 % of the domain.

Every fourth tuple is held out; plans are made from the others. Qualities are those of the gate:
weighted sums of the queries' QoS, through the data path of a node in batches of 2,000.

"Queries only" looks each tuple up in all queries. No plan of l regions can do so, and where fewer
tuples are wanted than may pass, it loses nothing. It is shown to tell how much that would gain.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from planning import streams
from planning.arrays import FloatArray
from planning.console import print_table
from planning.sifter import planner, queries, simulate, statistics
from planning.sifter.parameters import Parameters

LOADS = (0.1, 0.3, 0.5, 0.7, 0.9)
REGIONS = (16, 81)
COLUMNS = ["stream", "l", "load", "plan", "random", "queries only", "noise", "best"]

Columns = dict[str, FloatArray]
Stream = tuple[Columns, list[dict[str, Any]], dict[str, tuple[float, float]]]


def earthquakes(file: Path) -> Stream:
    """Return latitude, longitude and magnitude, and queries around strong earthquakes."""
    import pyarrow.csv as csv

    table = csv.read_csv(file)
    names = ("Latitude", "Longitude", "Magnitude")
    columns = {name: table.column(name).to_numpy().astype(float) for name in names}
    rng, strength = np.random.default_rng(0), 10.0 ** columns["Magnitude"]
    asked = []
    for place in rng.choice(len(strength), 300, p=strength / strength.sum()):
        ranges = {}
        for name, whole in (("Latitude", 180.0), ("Longitude", 360.0)):
            half = max(1.0, whole * rng.uniform(0.005, 0.05))
            ranges[name] = [columns[name][place] - half, columns[name][place] + half]
        if rng.random() < 0.5:
            ranges["Magnitude"] = [6.0, 10.0]
        asked.append({"ranges": ranges})
    return columns, asked, dict(zip(names, ((-90, 90), (-180, 180), (5, 10)), strict=True))


def flights(file: Path) -> Stream:
    """Return delay, distance and hour, and queries around late flights."""
    import pyarrow.ipc as ipc

    table = ipc.open_file(file).read_all()
    domains = {"delay": (-100.0, 1500.0), "distance": (0.0, 5000.0), "time": (0.0, 24.0)}
    columns = {name: table.column(name).to_numpy().astype(float) for name in domains}
    rng, late = np.random.default_rng(0), np.maximum(columns["delay"], 0.0) + 1.0
    asked = []
    for place in rng.choice(len(late), 1000, p=late / late.sum()):
        ranges = {}
        for name in rng.choice(list(domains), 2, replace=False).tolist():
            low, high = domains[name]
            half = rng.uniform(0.01, 0.05) * (high - low)
            ranges[name] = [columns[name][place] - half, columns[name][place] + half]
        asked.append({"ranges": ranges})
    return columns, asked, domains


STREAMS: dict[str, Callable[[Path], Stream]] = {
    "earthquakes-23k.csv": earthquakes,
    "flights-200k.arrow": flights,
}


def rows(name: str, stream: Stream) -> list[list[str]]:
    """Return the table's rows of a stream."""
    columns, asked, domains = stream
    held = np.arange(len(next(iter(columns.values())))) % 4 == 0
    seen, fresh = ({n: c[part] for n, c in columns.items()} for part in (~held, held))
    table = []
    for regions in REGIONS:
        definition = streams.parse(
            {
                "stream": "held-out",
                "family": "sifter",
                "attributes": [{"name": n, "domain": list(d)} for n, d in domains.items()],
                "queries": {"inline": asked},
                "parameters": {"regions": regions, "sample_size": 20_000},
            },
            name,
        ).of(Parameters)
        plan = planner.plan(statistics.build(seen, definition), definition)
        bench = simulate.Bench(plan.space.matrix(fresh), queries.of(definition))
        for outcome in simulate.evaluate(plan, fresh, definition, LOADS):
            only = bench.quality(bench.thinned(outcome.load, wanted_first=True), outcome.load)
            others = {"random": outcome.random_quality, "queries only": only}
            best = max({"plan": outcome.quality, **others}.items(), key=lambda item: item[1])[0]
            values = [outcome.quality, *others.values(), outcome.noise]
            shown = [f"{value:.3f}" for value in values]
            table.append([name, str(plan.regions), f"{outcome.load:g}", *shown, best])
    return table


def main(folder: str) -> int:
    """Print the table of what is in the folder."""
    table = []
    for name, read in STREAMS.items():
        file = Path(folder, name)
        if file.exists():
            table += rows(name, read(file))
        else:
            print(f"{name} is not in {folder}: skipped")
    print_table(COLUMNS, table)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1] if len(sys.argv) > 1 else "."))

"""Real rates beyond the shared ones: plan, random dropping and local shedding at five loads.

``python -m benchmarks.fit.held_out FOLDER`` reads, as far as they are in the folder,

- ``apache_logs`` (github.com/elastic/examples, Common Data Formats): 10,000 requests to a web site
  in four days of May 2015; inputs are the kinds of paths, periods are hours.
- ``taxis.csv`` (github.com/mwaskom/seaborn-data): 6,433 taxi trips in New York in March 2019;
  inputs are borough and colour, periods are hours.

The six inputs of each are those of two query networks: ``web`` and the demo's, on four servers.
Plans are made from the first 60 % of the hours and tried on the others, through the data path of a
node that measures the rates itself, in batches of 100 and 2,000. Random dropping and local shedding
follow the rates that the node believes in, in batches of 100. ``true`` is the plan at the rates
that are really there, ``last`` at those of the period before, as if nothing were measured
meanwhile. Counted are periods in which some server or link is given more than 1.01 of its capacity:
by ``last``, by the node, and by the node with a plan of 5 % head room.
"""

from __future__ import annotations

import csv
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import datetime
from pathlib import Path

import numpy as np

from planning.arrays import FloatArray
from planning.console import print_table
from planning.fit import demo, planner, simulate
from planning.fit.network import QueryNetwork
from planning.fit.planner import plan_network

LOADS = (0.1, 0.3, 0.5, 0.7, 0.9)
PERIOD_S = 10.0
TRAINED = 0.6
ROOM = 1.05
COLUMNS = ["stream", "network", "load", "plan", "by 2,000", "predicted", "random", "local", "true",
           "last", "noise", "over: last", "node", "with room", "of", "best"]  # fmt: skip
Event = tuple[datetime, str]


def requests(file: Path) -> Iterator[Event]:
    """Yield time and kind of every request in a log."""
    kinds = re.compile(r"presentations|blog|images|projects|files")
    for line in file.read_text(encoding="utf-8", errors="replace").splitlines():
        found = re.search(r'\[([^ ]+) [^]]*\] "[A-Z]+ /([^/? ]*)', line)
        if found:
            kind = found[2] if kinds.fullmatch(found[2]) else "other"
            yield datetime.strptime(found[1], "%d/%b/%Y:%H:%M:%S"), kind


def taxis(file: Path) -> Iterator[Event]:
    """Yield pickup time and borough with colour of every trip."""
    with file.open(encoding="utf-8", newline="") as lines:
        for trip in csv.DictReader(lines):
            where, colour = trip["pickup_borough"], trip["color"]
            kind = f"{where} {colour}" if where in ("Manhattan", "Queens") else where or "unknown"
            if kind.startswith("Manhattan y"):
                kind += f" {trip['payment']}"
            yield datetime.fromisoformat(trip["pickup"]), kind


STREAMS: dict[str, tuple[str, Callable[[Path], Iterator[Event]]]] = {
    "web requests": ("apache_logs", requests),
    "taxi trips": ("taxis.csv", taxis),
}


def hourly(events: Iterator[Event]) -> FloatArray:
    """Return counts per hour of the five most frequent kinds and of all others."""
    counted = Counter((time.replace(minute=0, second=0), kind) for time, kind in events)
    totals: Counter[str] = Counter()
    for (_, kind), count in counted.items():
        totals[kind] += count
    common = [kind for kind, _ in totals.most_common(5)]
    hours = sorted({hour for hour, _ in counted})
    whole = hours[1:-1]
    places = {hour: k for k, hour in enumerate(whole)}
    table = np.zeros((len(whole), 6))
    for (hour, kind), count in counted.items():
        if hour in places:
            table[places[hour], common.index(kind) if kind in common else 5] += count
    return table


def tried(name: str, network: QueryNetwork, rates: FloatArray) -> list[list[str]]:
    """Return the rows of one stream on one network."""
    known = int(TRAINED * len(rates))
    train, test = rates[:known], rates[known:]
    made = plan_network(network)
    made = replace(made, qualities=planner._qualities(made, train))
    roomy = replace(made, headroom=ROOM)
    rows = []
    for load in LOADS:
        scaled = simulate.scale_to(network, test, load)
        outcome = simulate._outcome(made, network, test, PERIOD_S, load)
        items = simulate._Items(network, scaled, PERIOD_S)
        node = items.measured(made, 100, items.count)
        random, local = map(items.instead, (simulate.random_drops, simulate.local_drops))
        room = items.measured(roomy, 100, items.count)
        true = simulate.measure(network, scaled, made.at_many(scaled))
        before = np.vstack([scaled[:1], scaled[:-1]])
        last = simulate.measure(network, scaled, made.at_many(before))
        over = [int((done.loads > 1.01).any(axis=1).sum()) for done in (last, node, room)]
        qualities = (node.quality, outcome.quality, outcome.predicted_quality,
                     random.quality, local.quality, true.quality, last.quality)  # fmt: skip
        best = node.quality >= max(random.quality, local.quality, last.quality)
        rows.append([name, network.name, f"{load}", *(f"{q:.3f}" for q in qualities),
                     f"{outcome.noise:.3f}", *map(str, over), str(len(test)),
                     "yes" if best else "NO"])  # fmt: skip
    return rows


def run(folder: Path) -> list[list[str]]:
    """Return the rows of every stream whose file is in the folder."""
    rows = []
    for name, (file, read) in STREAMS.items():
        if not (folder / file).exists():
            print(f"{name}: {folder / file} is not there; left out")
            continue
        counts = hourly(read(folder / file))
        for network in (demo.web(), demo.network()):
            means = np.array([100.0 * demo.WEB_RATES[i] for i in network.input_ids])
            order = np.argsort(-means, kind="stable")
            rates = np.empty_like(counts)
            rates[:, order] = counts[:, :] / np.maximum(counts.mean(axis=0), 1e-9) * means[order]
            rows += tried(name, network, rates)
    return rows


def main() -> None:
    """Print the table."""
    print_table(COLUMNS, run(Path(sys.argv[1])))


if __name__ == "__main__":
    main()

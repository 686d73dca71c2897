"""Plans on the tracks of San Francisco's taxis, judged on another day.

``python -m benchmarks.lira.held_out FOLDER``: the folder holds the Cabspotting traces (Piorkowski,
Sarafijanovic-Djukic, Grossglauser, 2009), a file ``new_<taxi>.txt`` per taxi with lines "latitude
longitude occupied time". Plans are made from four hours of one Tuesday, and tried on the same hours
of the Wednesday, through the code that nodes run, at five loads and three settings. E_P in metres
of the plan, of one Δ for all nodes and of random dropping; all three send as many reports.
"""

from __future__ import annotations

import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from planning.arrays import FloatArray
from planning.console import print_table
from planning.lira.planner import plan
from planning.lira.simulate import evaluate
from planning.lira.statistics import build
from planning.streams import StreamDefinition, parse

Rows = dict[str, np.ndarray]
LOADS = (0.3, 0.4, 0.5, 0.75, 0.9)
DAYS = (27, 28)  # of May 2008; nothing was chosen on these
FIRST_HOUR, HOURS = 17, 4  # UTC
SOUTH_WEST, NORTH_EAST = (37.55, -122.55), (37.85, -122.2)  # degrees
METRES = 110_950.0, 88_080.0  # per degree of latitude and longitude, there
SETTINGS: dict[str, dict[str, Any]] = {
    "Δ 20–500 m, F = 100 m": {
        "lowest_threshold": 20, "highest_threshold": 500, "fairness_threshold": 100,
    },
    "Δ 50–1000 m, F = 500 m": {
        "lowest_threshold": 50, "highest_threshold": 1000, "fairness_threshold": 500,
    },
    "Δ 100–2000 m, F = 1900 m": {
        "lowest_threshold": 100, "highest_threshold": 2000, "fairness_threshold": 1900,
    },
}  # fmt: skip
QUERIES = 80


def main() -> int:
    """Print the table; say so if there are no tracks."""
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else Path()
    files = sorted(folder.glob("new_*.txt"))
    if not files:
        print(f"no traces new_*.txt in {folder.resolve()}: give the folder of the Cabspotting data")
        return 0
    past, fresh = days(files)
    rows = []
    for sides in ((300.0, 800.0), (2000.0, 6000.0)):
        for name, chosen in SETTINGS.items():
            rows += compare(past, fresh, definition(past, sides, chosen), f"{name}, {sides[0]:g}+")
    print_table(["setting", "z", "plan", "one Δ", "random", "forecast", "noise", "best"], rows)
    best = sum(row[-1] == "plan" for row in rows)
    print(f"the plan is best in {best} of {len(rows)} cells")
    return 0


def days(files: list[Path]) -> list[Rows]:
    """Return the positions of each day, in metres and seconds after its first hour."""
    begins = [datetime(2008, 5, day, FIRST_HOUR, tzinfo=UTC).timestamp() for day in DAYS]
    parts: list[list[FloatArray]] = [[] for _ in DAYS]
    for number, file in enumerate(files):
        track = np.loadtxt(file, usecols=(0, 1, 3))
        inside = ((track[:, :2] > SOUTH_WEST) & (track[:, :2] < NORTH_EAST)).all(axis=1)
        for part, begin in zip(parts, begins, strict=True):
            here = inside & (track[:, 2] >= begin) & (track[:, 2] < begin + 3600 * HOURS)
            some = track[here][::-1]  # the newest comes first
            part.append(np.column_stack([np.full(len(some), number), some - [0, 0, begin]]))
    return [columns(np.concatenate(part)) for part in parts]


def columns(tracks: FloatArray) -> Rows:
    """Return rows (taxi, latitude, longitude, time) as the columns of a stream."""
    taxi, latitude, longitude, time = tracks.T
    y, x = (latitude - SOUTH_WEST[0]) * METRES[0], (longitude - SOUTH_WEST[1]) * METRES[1]
    order = np.lexsort((time, taxi))
    same = np.diff(taxi[order]) == 0
    speed = np.zeros(len(taxi))
    with np.errstate(divide="ignore", invalid="ignore"):
        pace = np.hypot(np.diff(x[order]), np.diff(y[order])) / np.diff(time[order])
    speed[order[1:]] = np.where(same & np.isfinite(pace), np.minimum(pace, 99.0), 0.0)
    return {"object_id": taxi, "time": time, "x": x, "y": y, "speed": speed}


def definition(
    rows: Rows, sides: tuple[float, float], chosen: dict[str, Any]
) -> StreamDefinition:
    """Return a stream with queries around taxis."""
    rng = np.random.default_rng(1)
    space = {
        "x": (NORTH_EAST[1] - SOUTH_WEST[1]) * METRES[1],
        "y": (NORTH_EAST[0] - SOUTH_WEST[0]) * METRES[0],
    }
    inline = []
    for i in rng.integers(0, len(rows["x"]), QUERIES).tolist():
        half = rng.uniform(*sides) / 2
        ranges = {}
        for n, high in space.items():
            centre = float(np.clip(rows[n][i] + rng.normal(0, sides[0]), 0.0, high))
            ranges[n] = [max(centre - half, 0.0), min(centre + half, high)]
        inline.append({"ranges": ranges})
    attributes = [{"name": n, "domain": [0, space.get(n, 1e9)]} for n in rows]
    document = {
        "stream": "taxis", "family": "lira", "attributes": attributes,
        "queries": {"inline": inline}, "parameters": chosen,
    }  # fmt: skip
    return parse(document, "taxis.yaml")


def compare(past: Rows, fresh: Rows, asked: StreamDefinition, name: str) -> list[list[str]]:
    """Return a line per load."""
    made = plan(build(past, asked), asked)
    lines = []
    for outcome in evaluate(made, fresh, asked, LOADS):
        qualities = {
            "plan": outcome.quality,
            "one Δ": outcome.baselines["one delta"],
            "random": outcome.random_quality,
        }
        metres = [*qualities.values(), outcome.predicted_quality]
        errors = [f"{(1 - q) * made.frame.high:.1f}" for q in metres]
        best = max(qualities, key=lambda n: qualities[n])
        below = " (below the floor)" if outcome.load < made.floor else ""
        noise = f"{outcome.noise * made.frame.high:.1f}"
        lines.append([name, f"{outcome.load:g}{below}", *errors, noise, best])
    return lines


if __name__ == "__main__":
    sys.exit(main())

"""Recorded data that nothing here was tuned on: ``python -m benchmarks.joins.held_out FOLDER``.

``ecom.csv.gz`` is the log of an online shop (``user_id``, ``event``, ``timestamp``) from the public
repository ``retentioneering/retentioneering-tools``. Looking (catalogue, main page and the like) is
one stream, acting on a product (product pages, cart, payment) the other; they are joined on the
user. The plan is made from the first half of the time and tried on the second.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

from benchmarks.joins.recorded import MINUTE, RealPair
from benchmarks.joins.workload import single_values
from planning.joins import simulate
from planning.joins.model import Condition, Windows

LOADS = (0.05, 0.1, 0.2, 0.3, 0.5)
ACTIONS = ("cart", "product", "payment", "delivery")


def shop(folder: Path) -> RealPair:
    """Join what users look at with what they do, within an hour."""
    import pandas

    log = pandas.read_csv(folder / "ecom.csv.gz").dropna(subset=["user_id", "event", "timestamp"])
    seconds = pandas.to_datetime(log["timestamp"]).to_numpy("datetime64[ms]").astype(np.int64) / 1e3
    _, users = np.unique(log["user_id"].to_numpy(str), return_inverse=True)
    acts = log["event"].str.contains("|".join(ACTIONS)).to_numpy()
    order = np.argsort(seconds, kind="stable")
    left, right = (
        single_values(seconds[order[chosen[order]]], users[order[chosen[order]]])
        for chosen in (~acts, acts)
    )
    windows = Windows((60 * MINUTE, 60 * MINUTE), 2 * MINUTE)
    return RealPair("shop, users", left, right, windows, Condition("equality"), "hash")


def report(folder: Path) -> list[dict[str, float]]:
    """Return plan, random dropping and newest first at five loads."""
    pair = shop(folder)
    early, late = pair.halves()
    plan = pair.plan(early)
    return [
        {
            "load": outcome.load,
            "predicted": outcome.predicted_quality,
            "plan": outcome.quality,
            "random dropping": outcome.random_quality,
            **outcome.baselines,
            "standard error": outcome.noise,
        }
        for outcome in simulate.measure(plan, late[0], late[1], LOADS)
    ]


def main(arguments: list[str]) -> int:
    """Print the table, or say what is missing."""
    folder = Path(arguments[0] if arguments else ".")
    if not (folder / "ecom.csv.gz").is_file():
        print(f"skipped: ecom.csv.gz is not in {folder}; give the folder that holds it")
        return 0
    rows = report(folder)
    print("  ".join(f"{name:>15}" for name in rows[0]))
    for row in rows:
        print("  ".join(f"{value:15.3f}" for value in row.values()))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

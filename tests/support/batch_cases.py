"""Batches that both validators judge, in memory and on Spark, and what both say about them."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from upath import UPath

from planning.stages.run import Run
from planning.streams import parse

NOW_S = 1_772_366_400.0  # 2026-03-01 12:00 UTC
TIMED = {"time_column": "at", "max_age_s": 3600}
ATTRIBUTES = [
    {"name": "price", "domain": [0, 100]},
    {"name": "volume", "type": "int", "domain": [0, 1000]},
    {"name": "side", "type": "category", "values": ["buy", "sell"]},
]


def rows(count: int, **changes: Any) -> list[dict[str, Any]]:
    """Return good rows of the last minutes, with some values replaced."""
    return [
        {
            "price": i * 7.25 % 100,
            "volume": i,
            "side": ("buy", "sell")[i % 2],
            "at": NOW_S - 60 + i,
            **changes,
        }
        for i in range(count)
    ]


@dataclass(frozen=True)
class Case:
    """A batch, the rules it is judged by, and the sentences of its rejection."""

    name: str
    rows: list[dict[str, Any]]
    clean: int
    said: str = ""
    samples: dict[str, Any] = field(default_factory=dict)
    gate: dict[str, Any] = field(default_factory=dict)

    def lay_out(self, folder: Path) -> Run:
        """Write the run as the collect stage leaves it."""
        run = Run(UPath(folder / "runs" / "ticks" / "run_1"))
        landed = folder / "a.jsonl"
        landed.write_text("".join(f"{json.dumps(row)}\n" for row in self.rows), encoding="utf-8")
        document = {
            "stream": "ticks",
            "family": "sifter",
            "attributes": ATTRIBUTES,
            "samples": {"min_rows": 5, "format": "jsonl", **self.samples},
            "gate": self.gate,
        }
        definition = parse(document, "ticks.yaml").model_dump(mode="json")
        run.write("definition", {"definition": definition, "source": "ticks.yaml"})
        digest = hashlib.sha256(landed.read_bytes()).hexdigest()
        file = {"path": str(landed), "format": "jsonl", "rows": len(self.rows), "digest": digest}
        run.write("collected", {"files": [file]})
        return run

    def check(self, report: dict[str, Any]) -> None:
        """Check what a validator wrote into ``validation.json``."""
        assert (report["rows"], report["clean"]) == (len(self.rows), self.clean)
        assert report["success"] == (not self.said)
        said = f"the samples of stream ticks were rejected: {self.said}. Nothing was published"
        assert report["error"].startswith(said if self.said else "")
        assert bool(report["error"]) == bool(self.said)
        both = report["train"] + report["holdout"]
        of_split = [f["expectation"] for f in report["failures"]] == ["gate.holdout"]
        assert both == (0 if self.said and not of_split else self.clean)


TOO_FEW = "samples.min_rows asks for at least {} clean rows, got {} of {}; wait for more samples \
or lower it"
TOO_OLD = "the newest sample is of {} UTC, older than samples.max_age_s = 3600 allows; check that \
the source still writes"
TOO_BAD = "samples.max_quarantined allows {} of the rows, got {} of {} quarantined: {}; repair the \
source, or correct the domains in the stream definition"
ONE_SIDED = "gate.holdout = 0.25 splits the clean rows into {} (train / holdout), and neither may \
be empty; collect more samples, or choose gate.holdout_by columns with more distinct values"

CASES = [
    Case("fresh, few bad ones, a clock that is fast",
         rows(39) + rows(1, at=NOW_S + 300) + rows(4, price=100.5), 40, samples=TIMED),
    Case("too few", rows(40), 40, TOO_FEW.format(100, 40, 40), {"min_rows": 100}),
    Case(
        "too many bad ones",
        rows(40) + rows(7, price=100.5) + rows(5, volume=1.5) + rows(4, side="hold"),
        40,
        TOO_BAD.format(
            0.1, 16, 56, "price is outside [0, 100] (7), volume is not a whole number (5), side is "
            "not one of buy, sell (4)",
        ),
    ),
    Case("a share of bad ones is allowed", rows(40) + rows(12, price=-1), 40,
         samples={"max_quarantined": 0.25}),
    Case("stale", rows(40, at=NOW_S - 7200), 40, TOO_OLD.format("2026-03-01 10:00:00"), TIMED),
    Case("stale, but nobody asks", rows(40, at=NOW_S - 7200), 40,
         samples={"time_column": "at"}),
    Case("as old as allowed", rows(40, at=NOW_S - 3600), 40, samples=TIMED),
    Case(
        "a row of the future does not make a batch fresh",
        rows(40, at=NOW_S - 7200) + rows(1, at=NOW_S + 301),
        40,
        TOO_OLD.format("2026-03-01 10:00:00"),
        TIMED,
    ),
    Case(
        "an attribute may be the time",
        rows(40, price=50.0),
        40,
        TOO_OLD.format("1970-01-01 00:00:50"),
        {"time_column": "price", "max_age_s": 3600},
    ),
    Case(
        "everything at once",
        rows(10, at=NOW_S - 7200) + rows(3, at=NOW_S + 1e6),
        10,
        ". Also: ".join(
            [TOO_FEW.format(100, 10, 13), TOO_OLD.format("2026-03-01 10:00:00"),
             TOO_BAD.format(0.1, 3, 13, "at is outside (-inf, 1772366700] (3)")]
        ),
        {**TIMED, "min_rows": 100},
    ),
    Case("nothing held out", rows(40, side="buy"), 40, ONE_SIDED.format("40 / 0"),
         gate={"holdout_by": ["side"]}),
]  # fmt: skip

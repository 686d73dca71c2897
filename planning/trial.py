"""Try the published plans: runtime shedders pick them up and shed fresh samples.

``python -m planning.trial`` does so for the demo streams and ends with a summary and a report.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from upath import UPath

from planning import assurances, families, loads
from planning.arrays import Columns
from planning.artifacts import Published, TrustedKeys
from planning.errors import InvalidInput, PlanningError
from planning.families import Outcome
from planning.home import Home
from planning.query_files import located
from planning.runtime import PlanClient, RunningShedder
from planning.samples import broken_rules, in_domain, read_columns, read_json_lines, take, typed
from planning.stages.batch_rules import worst
from planning.stages.landing import SUFFIXES
from planning.stages.run import Run
from planning.streams import StreamDefinition, load_folder

FRESH = 1_000_000  # demo batches from here on are never landed, so no plan has seen them
BATCH_ROWS = 1000


@dataclass(frozen=True, slots=True)
class Trial:
    """What one stream's plan was made from and what it achieved on fresh samples."""

    definition: StreamDefinition
    published: Published
    rows: int
    quarantined: int
    statistics_bytes: int
    data_docs: str
    outcomes: tuple[Outcome, ...]
    counters: dict[str, Any]
    samples: Columns  # the fresh samples
    queries: assurances.Table = ([], [])  # what is predicted for those that lose most


def outcomes(
    home: Home,
    definition: StreamDefinition,
    *,
    at: Sequence[str],
    samples: Path | None = None,
    version: int | None = None,
) -> list[dict[str, Any]]:
    """Shed fresh samples with a published plan at several loads; compare with random dropping.

    ``at`` are loads as :func:`planning.loads.parse` reads them; each record has its own.
    """
    published = home.store().load(definition.stream, version)
    wanted = [loads.parse(text, published.plan, open_low=True) for text in at]
    done = _shed(published, _columns(definition, samples), located(definition, home), wanted)
    return [
        asdict(outcome) | {"load": load, "loss_ratio": outcome.loss_ratio}
        for load, outcome in zip(wanted, done, strict=True)
    ]


def try_stream(home: Home, definition: StreamDefinition) -> Trial:
    """Let a runtime shedder pick up the stream's plan and shed fresh samples with it."""
    trusted = TrustedKeys.load(home.keys)
    client = PlanClient(home.plans, definition.stream, trusted=trusted, node="trial", memory=False)
    client.poll()
    if client.current is None:
        raise PlanningError(f"stream {definition.stream} has no plan to try: {client.last_error}")
    columns = _columns(definition, None)
    shedder = RunningShedder(client, load=definition.gate.loads[len(definition.gate.loads) // 2])
    for batch in batches(columns, BATCH_ROWS):
        shedder.offer(batch)
    client.stop()
    run = run_of(home, definition.stream, client.current.manifest.version)
    validation = run.read("validation") if run else {}
    return Trial(
        definition=definition,
        published=client.current,
        rows=validation.get("rows", 0),
        quarantined=validation.get("quarantined", 0),
        statistics_bytes=(run.folder / "statistics.json").stat().st_size if run else 0,
        data_docs=validation.get("data_docs", ""),
        outcomes=_shed(
            client.current, columns, located(definition, home), definition.gate.loads
        ),
        counters=shedder.counters.snapshot(),
        samples=columns,
        queries=assurances.queries(home.store(), client.current),
    )


def _shed(
    published: Published, samples: Columns, definition: StreamDefinition, at: Sequence[float]
) -> tuple[Outcome, ...]:
    evaluate = families.family(definition.family).room("simulate").evaluate
    done = evaluate(published.plan, samples, definition, at)
    return tuple(
        replace(
            outcome,
            predicted_quality=published.promised(load, outcome.predicted_quality).quality,
        )
        for load, outcome in zip(at, done, strict=True)
    )


def run_of(home: Home, stream: str, version: int) -> Run | None:
    """Return the run that published a version, if it is still kept."""
    folder = home.runs / stream
    for path in sorted(folder.iterdir(), key=str) if folder.exists() else []:
        run = Run(path)
        if run.has("published") and run.read("published")["version"] == version:
            return run
    return None


def batches(columns: Columns, rows: int) -> list[dict[str, np.ndarray]]:
    """Cut columns into batches of ``rows`` rows."""
    total = len(next(iter(columns.values())))
    return [
        {name: values[start : start + rows] for name, values in columns.items()}
        for start in range(0, total, rows)
    ]


def _columns(definition: StreamDefinition, samples: Path | None) -> dict[str, np.ndarray]:
    if samples is not None:
        lines = samples.suffix in SUFFIXES["jsonl"]
        read = read_json_lines if lines else read_columns
        columns = read(UPath(samples), definition.sample_columns)
    elif definition.demo:
        with tempfile.TemporaryDirectory() as folder:
            demo = families.family(definition.family).room("demo")
            demo.land(UPath(folder), FRESH, definition)
            columns = read_columns(UPath(folder), definition.sample_columns)
    else:
        raise InvalidInput(
            f"samples must name fresh samples of stream {definition.stream}, got none; only demo "
            "streams make their own"
        )
    clean = in_domain(columns, definition)
    if not clean.any():
        broken = broken_rules(columns, definition)
        why = worst({reason: int(rows.sum()) for reason, rows in broken.items()})
        raise InvalidInput(
            f"samples must hold rows of stream {definition.stream} inside its domains, got none in "
            f"{samples}; {why or 'it holds no rows'}"
        )
    return take(typed(columns, definition), clean)


def print_summary(trials: Sequence[Trial]) -> None:
    """Print one block per stream: what was planned, and quality compared with random dropping."""
    from planning.console import print_table

    print_table(
        ["stream", "family", "samples", "quarantined", "statistics", "version", "plan"],
        [
            [
                t.definition.stream,
                t.definition.family,
                t.rows,
                t.quarantined,
                f"{t.statistics_bytes} B",
                t.published.manifest.version,
                f"{t.published.manifest.payloads.binary.bytes} B",
            ]
            for t in trials
        ],
        title="Planned",
    )
    print_table(
        ["stream", "load", "passed", "predicted", "achieved", "random", "loss vs random"],
        [
            [
                t.definition.stream,
                f"{o.load:g}",
                f"{o.passed_fraction:.3f}",
                f"{o.predicted_quality:.3f}",
                f"{o.quality:.3f}",
                f"{o.random_quality:.3f}",
                f"{o.loss_ratio:.2f}",
            ]
            for t in trials
            for o in t.outcomes
        ],
        title="Quality on fresh samples (1 = nothing lost)",
    )
    print_table(
        ["stream", "certificate"],
        [
            [t.definition.stream, assurances.certificate(t.published.manifest)]
            for t in trials
        ],
        title="What OR-Tools says of the plans",
    )


def main(argv: Sequence[str] | None = None) -> int:
    """Try every demo stream's plan, print the summary, write the report."""
    parser = argparse.ArgumentParser(prog="python -m planning.trial", description=__doc__)
    parser.add_argument("--home", default="var/headgate")
    parser.add_argument("--streams", default="dags/streams", help="folder of definitions")
    parser.add_argument("--pictures", help="also write each stream's picture to this folder")
    arguments = parser.parse_args(argv)
    home = Home.at(arguments.home)
    definitions, _ = load_folder(arguments.streams)
    try:
        trials = [try_stream(home, definition) for definition in definitions if definition.demo]
        from planning.report import write_pictures, write_report

        print_summary(trials)
        path = write_report(home.reports / "report.html", trials)
        if arguments.pictures:
            write_pictures(UPath(arguments.pictures), trials)
    except PlanningError as error:
        print(f"headgate: {error}", file=sys.stderr)
        return 1
    print(f"Report: {path}")
    return 0


if __name__ == "__main__":
    sys.exit(main())

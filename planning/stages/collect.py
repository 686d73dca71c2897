"""Collect: the monitoring samples that landed since the last run, each file exactly once."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

from planning.errors import BatchRejected, PlanningError
from planning.home import Home
from planning.query_files import content, locate
from planning.stages.landing import SUFFIXES, Arrival, Unreadable, digest, read_file, scan
from planning.stages.ledger import LandedFile, Ledger
from planning.stages.run import Run, prune
from planning.streams import StreamDefinition

SHOWN = 5


class NothingNew(PlanningError):
    """No new samples have landed since the last run; there is nothing to plan from.

    Examples
    --------
    >>> import tempfile
    >>> from planning.examples import demo_definition
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     try:
    ...         _ = collect(Home.at(folder), demo_definition("sifter"), "first")
    ...     except NothingNew as error:
    ...         print(str(error).split(";")[1])
     the published plan, if there is one, stays in force. Land samples there, or use force to \
plan again from the last ones
    """


def collect(
    home: Home,
    definition: StreamDefinition,
    run_id: str,
    *,
    force: bool = False,
    dry_run: bool = False,
    now_ns: Callable[[], int] = time.time_ns,
) -> Run:
    """Claim the stream's new landing files for a run and record which they are.

    A repeated run gets the files it had. With ``force`` and nothing new, the files of the last run
    are used again. Unreadable files are set aside whole, with the reason; files that are still
    being written are left for the next run. After a ``dry_run`` all files are still new. Folders of
    runs that are older than the definition's retention are removed.

    >>> import tempfile
    >>> from planning.demos import land_batch
    >>> from planning.examples import demo_definition
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     home, ticks = Home.at(folder), demo_definition("sifter")
    ...     _ = land_batch(home.resolve(ticks.landing), 0, {"price": [12.5], "volume": [700]})
    ...     run = collect(home, ticks, "first")
    ...     [file["rows"] for file in run.read("collected")["files"]]
    [1]
    """
    ledger, run = Ledger(home.ledger), Run.of(home, definition.stream, run_id)
    files = ledger.of_run(definition.stream, run_id)
    waiting: list[str] = []
    if not files:
        new, waiting = _look(home, definition, ledger, now_ns())
        if new:
            # If the run cannot be written, its samples must not be used up.
            _note_definition(run, definition, home)
            files = ledger.claim(definition.stream, run_id, new, keep=not dry_run)
    reused_from = None
    if not any(f.status == "used" for f in files) and force:
        reused_from = ledger.last_run(definition.stream)
        files += ledger.of_run(definition.stream, reused_from) if reused_from else []
    if files:
        _note_definition(run, definition, home)
        _note_files(run, definition.samples.format, files, waiting, reused_from)
        prune(home, definition.stream, keep=definition.retention.runs)
    if not any(f.status == "used" for f in files):
        raise _nothing_to_use(definition, home, files, waiting)
    return run


def _note_definition(run: Run, definition: StreamDefinition, home: Home) -> None:
    document = definition.model_dump(mode="json")
    source = str(Path(definition.source).absolute())
    file = definition.queries.file
    if file is not None:
        run.put(run.queries(file), content(locate(file, source, home)))
    run.write("definition", {"definition": document, "source": source})


def _note_files(
    run: Run,
    file_format: str,
    files: list[LandedFile],
    waiting: list[str],
    reused_from: str | None,
) -> None:
    collected = {
        "files": [
            {"path": f.path, "format": file_format, "rows": f.rows, "digest": f.digest}
            for f in files
            if f.status == "used"
        ],
        "set_aside": [{"path": f.path, "reason": f.reason} for f in files if f.status != "used"],
        "waiting": waiting,
        "reused_from": reused_from,
    }
    run.write("collected", collected)


def _look(
    home: Home, definition: StreamDefinition, ledger: Ledger, now_ns: int
) -> tuple[list[LandedFile], list[str]]:
    samples = definition.samples
    known = ledger.known(definition.stream)
    used_paths = {f.path: f.run for f in known.values() if f.status == "used"}
    new: list[LandedFile] = []
    waiting: list[str] = []
    for arrival in scan(home.resolve(definition.landing), samples.format):
        if (str(arrival.path), arrival.size, arrival.modified_ns) in known:
            continue
        settled = arrival.settled(now_ns, samples.settle_s)
        if samples.format == "jsonl" and not settled:
            waiting.append(str(arrival.path))
        elif str(arrival.path) in used_paths:
            run = used_paths[str(arrival.path)]
            new.append(_set_aside(arrival, f"changed after run {run} used it; land new files"))
        else:
            try:
                new.append(read_file(arrival, samples.format, definition.sample_columns))
            except Unreadable as error:
                if settled or error.finished:
                    new.append(_set_aside(arrival, str(error)))
                else:
                    waiting.append(str(arrival.path))
    return new, waiting


def _set_aside(arrival: Arrival, reason: str) -> LandedFile:
    try:
        content = digest(arrival.path)
    except OSError:  # a folder, or a file that is gone or may not be read
        content = ""
    return LandedFile(
        str(arrival.path), arrival.size, arrival.modified_ns, content, "set_aside", reason=reason
    )


def _nothing_to_use(
    definition: StreamDefinition, home: Home, files: list[LandedFile], waiting: list[str]
) -> PlanningError:
    """Return why there is nothing to plan from: every new file is bad, or there is none."""
    folder = home.resolve(definition.landing)
    if any(f.status == "set_aside" for f in files):
        reasons = "; ".join(f"{f.path} {f.reason}" for f in files[:SHOWN])
        return BatchRejected(
            f"every new sample file of stream {definition.stream} was set aside: {reasons}. "
            "Nothing was published; repair the source and land the samples again"
        )
    file_format = definition.samples.format
    more = f" ({len(waiting)} still being written)" if waiting else ""
    other = next(f for f in SUFFIXES if f != file_format)
    others = len(scan(folder, other))
    if others:
        more += f" ({others} of format {other}, but samples.format is {file_format})"
    return NothingNew(
        f"no new {file_format} files in {folder} since the last run{more}; the published plan, if "
        "there is one, stays in force. Land samples there, or use force to plan again from the "
        "last ones"
    )

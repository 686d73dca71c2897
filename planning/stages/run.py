"""The folder of one planning run: what each stage leaves for the next.

=====================  ===========  ==========================================================
file                   written by   content
=====================  ===========  ==========================================================
``definition.json``    collect      the stream definition with this run's overrides
``queries.jsonl``      collect      a copy of the query file, if there is one (or ``.parquet``)
``collected.json``     collect      the landing files this run uses, and those it set aside
``samples/train``      validate     clean rows for statistics (Parquet)
``samples/holdout``    validate     clean rows that only the gate sees (Parquet)
``quarantine``         validate     rows that broke a rule, with the reasons (JSON lines)
``validation.json``    validate     counts, failed rules, link to the Data Docs
``statistics.json``    statistics   the family's bounded summary
``candidate.json``     solve        the plan, in its JSON form, and how good it is known to be
``certificate.json``   solve        what OR-Tools says of the candidate
``verdict.json``       gate         what the plan did on held-out samples, and the decision
``published.json``     publish      the published version: number, digest, sizes
=====================  ===========  ==========================================================

Stages read nothing but the run's folder, so that a run is not disturbed by what changes around it.
"""

from __future__ import annotations

import json
import re
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from upath import UPath

from planning.errors import PlanningError, StoreError
from planning.home import Home
from planning.query_files import with_file
from planning.streams import StreamDefinition, parse

MADE_AHEAD = "statistics_made_ahead"
"""Marks statistics that validate made in its own Spark session."""
UNSAFE = re.compile(r"[^A-Za-z0-9._-]+")


@dataclass(frozen=True, slots=True)
class Run:
    """One planning run's folder; every path below it has one writer.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     run = Run.of(Home.at(folder), "ticks", "manual 1")
    ...     run.write("verdict", {"decision": "publish"})
    ...     Run.at(run.uri).read("verdict"), run.has("published")
    ({'decision': 'publish'}, False)
    """

    folder: UPath

    @classmethod
    def of(cls, home: Home, stream: str, run_id: str) -> Run:
        """Return the folder of run ``run_id``; any id gives a safe name.

        >>> Run.of(Home.at("memory://h"), "ticks", "manual__2026-01-01T00:00+00").folder.name
        'manual__2026-01-01T00_00_00'
        """
        return cls(home.runs / stream / UNSAFE.sub("_", run_id))

    @classmethod
    def at(cls, uri: str) -> Run:
        """Return the run whose folder is ``uri``."""
        return cls(UPath(uri))

    @property
    def uri(self) -> str:
        """The folder, as the stages pass it on."""
        return str(self.folder)

    @property
    def train(self) -> UPath:
        """Clean rows for statistics."""
        return self.folder / "samples" / "train"

    @property
    def holdout(self) -> UPath:
        """Clean rows that only the gate sees."""
        return self.folder / "samples" / "holdout"

    @property
    def quarantine(self) -> UPath:
        """Rows that broke a rule."""
        return self.folder / "quarantine"

    def queries(self, file: str) -> UPath:
        """Return the path of this run's copy of a query file."""
        return self.folder / ("queries.parquet" if file.endswith(".parquet") else "queries.jsonl")

    def write(self, name: str, document: Any) -> None:
        """Write ``<name>.json`` whole or not at all."""
        text = json.dumps(document, indent=1, sort_keys=True)
        self.put(self.folder / f"{name}.json", text.encode())

    def put(self, path: UPath, data: bytes) -> None:
        """Write a file of the run whole or not at all."""
        part = self.folder / f".{path.name}.part"
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            part.write_bytes(data)
            part.rename(path)
        except OSError as error:
            raise StoreError(
                f"{self.folder} cannot be written ({error}); check HEADGATE_HOME, free space and "
                "permissions"
            ) from error

    def read(self, name: str) -> Any:
        """Read ``<name>.json``, written by an earlier stage."""
        path = self.folder / f"{name}.json"
        try:
            return json.loads(path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            raise PlanningError(
                f"{path} is missing: the stage that writes it has not run; run it first"
            ) from None
        except json.JSONDecodeError as error:
            raise PlanningError(f"{path} is not valid JSON ({error}); run its stage again") from (
                None
            )

    def take(self, name: str) -> bool:
        """Remove ``<name>.json``; return whether it was there."""
        there = self.has(name)
        if there:
            (self.folder / f"{name}.json").unlink()
        return there

    def has(self, name: str) -> bool:
        """Whether ``<name>.json`` has been written."""
        return bool((self.folder / f"{name}.json").exists())

    def definition(self) -> StreamDefinition:
        """Return the stream definition this run works with: with overrides and its own queries."""
        document = self.read("definition")
        definition = parse(document["definition"], document["source"])
        file = definition.queries.file
        return definition if file is None else with_file(definition, self.queries(file))


def prune(home: Home, stream: str, keep: int) -> None:
    """Remove the folders of all but the ``keep`` newest runs of a stream.

    A run is as old as its ``definition.json``; a folder without one is already being removed. The
    folder's own age will not do, because it changes while another run prunes.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     home = Home.at(folder)
    ...     for run_id in ("first", "second"):
    ...         Run.of(home, "ticks", run_id).write("definition", {})
    ...     prune(home, "ticks", keep=1)
    ...     [run.name for run in (home.runs / "ticks").iterdir()]
    ['second']
    """
    folders = [path for path in (home.runs / stream).iterdir() if path.is_dir()]
    try:
        folders.sort(key=_begun_at, reverse=True)
    except NotImplementedError:  # the file system does not know: better to keep them all
        return
    for path in folders[keep:]:
        with suppress(FileNotFoundError):  # another run has removed it
            path.fs.rm(path.path, recursive=True)


def _begun_at(folder: UPath) -> float:
    note = folder / "definition.json"
    try:
        return float(note.fs.modified(note.path).timestamp())
    except FileNotFoundError:
        return 0.0

"""What the Plans pages show, read from the store, the runs and the catalog of planned streams."""

from __future__ import annotations

import inspect
import io
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from msgspec.structs import asdict

from headgate_airflow.catalog import PlannedStream
from planning import assurances, families, loads
from planning.artifacts import Broken, Listing, Manifest, Published, Status, Store
from planning.artifacts.fleet import Fleet, fleet, lasting_s, span
from planning.errors import ArtifactError, NoPlan, PlanningError, StoreError
from planning.home import Home
from planning.stages.run import Run

CURVE_POINTS = 101
SHOWN_RUNS = 10
SHOWN_CHARACTERS = 120
DIGEST = re.compile("[0-9a-f]{64}")
MINUTE = 60


@dataclass(frozen=True)
class RunRow:
    """One planning run, as far as its folder shows."""

    name: str
    rows: int | None = None
    quarantined: int | None = None
    problem: str = ""
    decision: str = ""
    reason: str = ""
    warnings: tuple[str, ...] = ()
    version: int | None = None


@dataclass(frozen=True)
class StreamRow:
    """One stream in the list."""

    stream: str
    family: str
    description: str = ""
    manifest: Manifest | None = None
    problem: str = ""
    last_run: RunRow | None = None
    fleet: Fleet = Fleet(0, ())


@dataclass(frozen=True)
class StreamView:
    """Everything on a stream's page."""

    row: StreamRow
    history: Listing[Manifest]
    runs: list[RunRow]
    curve: list[tuple[float, float]] = field(default_factory=list)
    example: str = ""  # a load to start from; empty if the plan cannot be read
    certificate: str = ""
    checks: assurances.Table = ([], [])
    guarantees: assurances.Table = ([], [])
    queries: assurances.Table = ([], [])
    kept: list[list[str]] = field(default_factory=list)  # per guarantee, over the curve's loads

    @property
    def broken(self) -> tuple[Broken, ...]:
        """Versions that cannot be read."""
        return self.history.broken


def stream_rows(
    home: Home, planned: Mapping[str, PlannedStream], visible: Callable[[str], bool]
) -> list[StreamRow]:
    """Return the rows of the visible streams that are planned here or have a plan, by name."""
    store = home.store()
    names = sorted({*planned, *store.streams()})
    return [_row(home, store, name, planned.get(name)) for name in names if visible(name)]


def _row(home: Home, store: Store, stream: str, planned: PlannedStream | None) -> StreamRow:
    """Return a stream's row in the list; a damaged plan shows as such."""
    manifest, problem = None, ""
    try:
        manifest = store.latest(stream)
    except NoPlan:
        if planned is None:
            raise
    except (ArtifactError, StoreError) as error:
        problem = str(error)
    family = manifest.family if manifest else planned.family if planned else "?"
    nodes = Fleet(0, ())
    try:
        nodes = fleet(store, stream)
    except PlanningError as error:
        problem = problem or str(error)
    return StreamRow(
        stream=stream,
        family=family,
        description=planned.description if planned else "",
        manifest=manifest,
        problem=problem,
        last_run=next(iter(runs(home, stream, 1)), None),
        fleet=nodes,
    )


def stream_view(home: Home, stream: str, planned: PlannedStream | None) -> StreamView:
    """Return a stream's page."""
    store = home.store()
    row = _row(home, store, stream, planned)
    try:
        history = store.history(stream)
    except NoPlan:
        history = Listing(())
    published = _published(store, row.manifest)
    return StreamView(
        row=row,
        history=history,
        runs=runs(home, stream, SHOWN_RUNS),
        curve=curve(published) if published else [],
        example=loads.example(published.plan) if published else "",
        certificate=assurances.certificate(row.manifest) if row.manifest else "",
        checks=assurances.checks(row.manifest) if row.manifest else ([], []),
        guarantees=assurances.table(assurances.guarantees(published)) if published else ([], []),
        queries=assurances.queries(home.store(), published) if published else ([], []),
        kept=kept(published) if published else [],
    )


def _published(store: Store, manifest: Manifest | None) -> Published | None:
    try:
        return store.load(manifest.stream, manifest.version) if manifest else None
    except PlanningError:
        return None


def runs(home: Home, stream: str, count: int) -> list[RunRow]:
    """Return the latest planning runs, newest first."""
    folder = home.runs / stream
    if not folder.exists():
        return []
    folders = [path for path in folder.iterdir() if path.is_dir()]
    folders.sort(key=lambda path: path.stat().st_mtime, reverse=True)
    return [_run_row(Run(path)) for path in folders[:count]]


def _run_row(run: Run) -> RunRow:
    def read(name: str) -> dict[str, Any]:
        try:
            return dict(run.read(name)) if run.has(name) else {}
        except PlanningError:
            return {}

    validation, verdict, published = read("validation"), read("verdict"), read("published")
    return RunRow(
        name=run.folder.name,
        rows=validation.get("rows"),
        quarantined=validation.get("quarantined"),
        problem=str(validation.get("error") or ""),
        decision=str(verdict.get("decision", "")),
        reason=str(verdict.get("reason", "")),
        warnings=tuple(map(str, verdict.get("warnings", ()))),
        version=published.get("version"),
    )


def curve(published: Published) -> list[tuple[float, float]]:
    """Return the promised quality over load."""
    fractions = [i / (CURVE_POINTS - 1) for i in range(CURVE_POINTS)]
    return [(load, published.promised(load).quality) for load in fractions]


def kept(published: Published) -> list[list[str]]:
    """Return what is predicted for each guarantee at the loads of the curve, as the table says."""
    fractions = [i / (CURVE_POINTS - 1) for i in range(CURVE_POINTS)]
    asked = assurances.predicted(published.plan, fractions)
    return [[assurances.shown(g, p.value) for p in g.predicted] for g in asked]


def what_if(home: Home, stream: str, version: int, at: str) -> dict[str, Any]:
    """Return what a version promises at one load, and what a plan of rates drops there."""
    published = home.store().load(stream, version)
    plan = published.plan
    load = loads.parse(at, plan)
    promised = published.promised(load)
    answer = {
        "stream": stream,
        "version": version,
        "load": load,
        "predicted_quality": promised.quality,
    }
    if promised.low is not None:
        answer["predicted_interval"] = [promised.low, promised.high]
    if isinstance(plan, families.PassesFraction):
        answer["passed_fraction"] = float(plan.passed_fraction(load))
    if isinstance(plan, loads.OfRates):
        answer["drops"] = plan.at(load)
    if isinstance(load, float) and (asked := assurances.predicted(plan, [load])):
        values = [guarantee.predicted[0].value for guarantee in asked]
        answer["guarantees"] = [
            asdict(guarantee) | {"predicted": value, "holds": assurances.holds(guarantee, value)}
            for guarantee, value in zip(asked, values, strict=True)
        ]
    return answer


def picture(home: Home, stream: str, version: int, at: str | None) -> bytes:
    """Return a PNG of a version's plan, at a fraction if the family's picture depends on it."""
    from matplotlib.figure import Figure

    published = home.store().load(stream, version)
    load = None if at is None else loads.parse(at, published.plan)
    try:
        draw = families.family(published.manifest.family).room("figures").draw
    except (ImportError, AttributeError):
        raise NoPlan(f"family {published.manifest.family} has no picture of its plans") from None
    figure = Figure(figsize=(6.4, 4.8), layout="constrained")
    axes = figure.add_subplot()
    with_load = isinstance(load, float) and "load" in inspect.signature(draw).parameters
    draw(published.plan, axes, **({"load": load} if with_load else {}))
    image = io.BytesIO()
    figure.savefig(image, format="png", dpi=130)
    return image.getvalue()


def age(text: str, now: datetime | None = None) -> str:
    """Say how long ago a moment was.

    >>> age("2026-01-01T00:00:00Z", datetime(2026, 1, 3, 1, tzinfo=UTC))
    '2 days ago'
    >>> age("2026-01-01T00:00:00Z", datetime(2026, 1, 1, 0, 1, 5, tzinfo=UTC))
    '1 minute ago'
    """
    return ago(((now or datetime.now(UTC)) - datetime.fromisoformat(text)).total_seconds())


def ago(passed_s: float) -> str:
    """Say how long ago something was.

    >>> ago(240), ago(12)
    ('4 minutes ago', 'just now')
    """
    return f"{span(passed_s)} ago" if passed_s >= MINUTE else "just now"


def since(status: Status, moment: str | None) -> str:
    """Say since when something is so on a node, whatever its clock shows.

    >>> at = Status(node="edge-7", at="2026-01-01T00:05:00Z")
    >>> since(at, "2026-01-01T00:01:00Z"), since(at, None)
    ('4 minutes ago', '–')
    """
    seconds = lasting_s(status, moment)
    return "–" if seconds is None else ago(seconds)


def load(value: float | Mapping[str, float]) -> str:
    """Return a node's load, shortened for a table.

    >>> load(0.5), load({"i1": 200.0})
    ('0.5', 'i1=200')
    """
    return brief(loads.as_text(value))


def size(count: int) -> str:
    """Return a number of bytes as people read it.

    >>> size(812), size(20480)
    ('812 B', '20.0 kB')
    """
    return f"{count} B" if count < 1000 else f"{count / 1024:.1f} kB"


def brief(value: Any) -> str:
    """Return a value of a manifest or a plan, shortened for a table.

    >>> brief(0.9626776346), brief("c91b49aa0d85" + 52 * "0")
    ('0.962678', 'c91b49aa0d85…')
    """
    if isinstance(value, float):
        return f"{value:.6g}"
    text = str(value)
    if DIGEST.fullmatch(text):
        return text[:12] + "…"
    return text if len(text) <= SHOWN_CHARACTERS else text[: SHOWN_CHARACTERS - 1] + "…"


def expired(manifest: Manifest, now: datetime | None = None) -> bool:
    """Whether the plan may no longer be used."""
    end = manifest.validity.not_after
    return end is not None and datetime.fromisoformat(end) < (now or datetime.now(UTC))

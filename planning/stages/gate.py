"""Gate: a plan that would make things worse than what is in force is not published.

The candidate sheds samples it has not seen, at the loads the definition names, as do the published
plan and random dropping.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal, TypedDict

import msgspec

from planning import families
from planning.arrays import Columns
from planning.errors import NoPlan, PlanningError, StoreError
from planning.families import Outcome
from planning.home import Home
from planning.samples import read_columns
from planning.stages.run import Run
from planning.stages.solve import candidate, damaged
from planning.streams import StreamDefinition

SIGMAS = 4.0


def gate(home: Home, run: Run, *, force: bool = False) -> dict[str, Any]:
    """Try the candidate on held-out samples; write and return the verdict.

    >>> import tempfile
    >>> from planning.examples import demo_run
    >>> from planning.stages import local, solve
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     home = Home.at(folder)
    ...     run = demo_run(home, "sifter")
    ...     for stage in (local.validate, local.statistics, solve.solve):
    ...         _ = stage(run)
    ...     verdict = gate(home, run)
    >>> verdict["decision"], verdict["reason"]
    ('publish', 'first plan of the stream')
    """
    definition = run.definition()
    evaluate = families.family(definition.family).room("simulate").evaluate
    samples = read_columns(run.holdout, definition.sample_columns)
    outcomes = evaluate(candidate(run), samples, definition, definition.gate.loads)
    in_force = _published(home, definition, samples)
    refusal = _refusal(definition, outcomes, in_force)
    reason = refusal or in_force.note or _gain(outcomes, in_force)
    verdict = {
        "decision": "refuse" if refusal and not force else "publish",
        "reason": f"forced although {refusal}" if refusal and force else reason,
        "outcomes": [asdict(o) for o in outcomes],
        "published_version": in_force.version,
        "published_outcomes": [asdict(o) for o in in_force.outcomes],
    }
    run.write("verdict", verdict)
    return verdict


class _Verdict(TypedDict):
    """What ``verdict.json`` holds."""

    decision: Literal["publish", "refuse"]
    reason: str
    outcomes: list[Outcome]
    published_version: int | None
    published_outcomes: list[Outcome]


def verdict_of(run: Run) -> dict[str, Any]:
    """Return the verdict on a run's candidate.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     run = Run.of(Home.at(folder), "ticks", "by hand")
    ...     run.write("verdict", {"decision": "publish", "reason": "first", "outcomes": [],
    ...                           "published_version": None, "published_outcomes": []})
    ...     verdict_of(run)["decision"]
    'publish'
    """
    document = run.read("verdict")
    try:
        msgspec.convert(document, _Verdict)
    except msgspec.ValidationError as error:
        raise damaged(run, "verdict", "a verdict of the gate", error, stage="gate") from error
    return dict(document)


def mean_loss(outcomes: Sequence[Outcome]) -> float:
    """Return 1 − quality, averaged over the loads.

    >>> mean_loss([Outcome(0.5, 0.9, 0.75, 0.5, 0.5, 10), Outcome(0.3, 0.9, 0.25, 0.3, 0.3, 10)])
    0.5
    """
    return math.fsum(1.0 - o.quality for o in outcomes) / len(outcomes)


def random_loss(outcomes: Sequence[Outcome]) -> float:
    """Return random dropping's loss, averaged over the loads.

    >>> random_loss([Outcome(0.5, 0.9, 0.75, 0.5, 0.5, 10), Outcome(0.3, 0.9, 0.25, 0.0, 0.3, 10)])
    0.75
    """
    return math.fsum(1.0 - o.random_quality for o in outcomes) / len(outcomes)


@dataclass(frozen=True, slots=True)
class _InForce:
    """What the published plan does to the same samples; no outcomes if ``note`` says why not."""

    version: int | None = None
    outcomes: tuple[Outcome, ...] = ()
    note: str = ""


def _published(home: Home, definition: StreamDefinition, samples: Columns) -> _InForce:
    """Try the published plan, if there is one that can be compared with the candidate.

    A store that cannot be reached stops the gate: what is in force is then unknown.
    """
    version = None
    try:
        published = home.store().load(definition.stream)
        version, family = published.manifest.version, published.manifest.family
        if family != definition.family:
            return _InForce(version, note=f"it replaces version {version}, a plan of {family}")
        evaluate = families.family(family).room("simulate").evaluate
        outcomes = evaluate(published.plan, samples, definition, definition.gate.loads)
        return _InForce(version, tuple(outcomes))
    except NoPlan:
        return _InForce(note="first plan of the stream")
    except StoreError:
        raise
    except PlanningError as error:
        return _InForce(version, note=f"the published plan cannot be compared: {error}")


def _refusal(
    definition: StreamDefinition, outcomes: Sequence[Outcome], in_force: _InForce
) -> str:
    tolerance = definition.gate.tolerance
    loss, naive = mean_loss(outcomes), random_loss(outcomes)
    for outcome in outcomes:
        noise = SIGMAS * math.sqrt(outcome.load * (1 - outcome.load) / max(outcome.offered, 1))
        if outcome.passed_fraction > outcome.load + tolerance + noise:
            return (
                f"at load {outcome.load:g} it passes {outcome.passed_fraction:.3f} of the held-out "
                "samples, above its budget"
            )
    if loss > naive * (1 + tolerance):
        return f"it loses {loss:.4f} on held-out samples, random dropping only {naive:.4f}"
    if in_force.outcomes and loss > mean_loss(in_force.outcomes) * (1 + tolerance):
        return (
            f"it loses {loss:.4f} on held-out samples, the published version {in_force.version} "
            f"only {mean_loss(in_force.outcomes):.4f}"
        )
    return ""


def _gain(outcomes: Sequence[Outcome], in_force: _InForce) -> str:
    loss = mean_loss(outcomes)
    return f"loses {loss:.4f}, version {in_force.version} {mean_loss(in_force.outcomes):.4f}"

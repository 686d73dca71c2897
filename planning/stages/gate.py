"""Gate: a plan that would make things worse than what is in force is not published.

The candidate sheds samples that it has not seen, through the code that nodes run, in batches of
several sizes, at every load that the definition names and while the load changes. So does the
published plan. At each of them it must keep its budget and do no worse than the published plan,
random dropping, and the family's simple alternatives.

Guarantees come before quality, and alternatives do not regard them. So a plan with guarantees may
do worse than an alternative, as far as it said; and is compared with a published plan only if that
one keeps the same guarantees.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal, NotRequired, TypedDict

import msgspec

from planning import families
from planning.arrays import Columns
from planning.artifacts.predicting import MARGIN
from planning.errors import NoPlan, PlanningError, StoreError
from planning.families import Outcome, Plan
from planning.guarantees import Guarantees
from planning.home import Home
from planning.rehearsal import Load, changing
from planning.samples import read_columns
from planning.stages.run import Run
from planning.stages.solve import candidate, damaged, warnings_of
from planning.streams import StreamDefinition

SIGMAS = 4.0
NEGLIGIBLE = 0.002
"""A difference in quality that nobody would notice."""
MODEL = 0.05
"""How far the plan's model may be off before it is said."""
EVEN = 0.02
"""How far apart qualities at different batch sizes may lie before it is said."""


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
    loads: list[Load] = [*definition.gate.loads, changing(definition.gate.loads)]
    plan = candidate(run)
    outcomes = evaluate(plan, samples, definition, loads)
    in_force = _published(home, definition, samples, loads, _terms(plan))
    costs = _costs(outcomes, definition.gate.tolerance) if _terms(plan) else {}
    refusal = _refusal(definition, outcomes, in_force, set(costs))
    reason = refusal or in_force.note or _gain(outcomes, in_force)
    verdict = {
        "decision": "refuse" if refusal and not force else "publish",
        "reason": f"forced although {refusal}" if refusal and force else reason,
        "outcomes": [asdict(o) for o in outcomes],
        "warnings": [*warnings_of(run), *costs.values(), *_doubts(outcomes)],
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
    warnings: NotRequired[list[str]]
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


@dataclass(frozen=True, slots=True)
class _InForce:
    """What the published plan does to the same samples; no outcomes if ``note`` says why not."""

    version: int | None = None
    outcomes: tuple[Outcome, ...] = ()
    note: str = ""


def _terms(plan: Plan) -> list[tuple[str, str, float, int]]:
    """Return what a plan guarantees."""
    kept = plan.guarantees if isinstance(plan, Guarantees) else ()
    return sorted((g.name, g.limit, g.value, g.priority) for g in kept)


def _published(
    home: Home,
    definition: StreamDefinition,
    samples: Columns,
    loads: Sequence[Load],
    terms: list[tuple[str, str, float, int]],
) -> _InForce:
    """Try the published plan, if there is one that can be compared with the candidate.

    A store that cannot be reached stops the gate: what is in force is then unknown.
    """
    version = None
    try:
        published = home.store().load(definition.stream)
        version, family = published.manifest.version, published.manifest.family
        if family != definition.family:
            return _InForce(version, note=f"it replaces version {version}, a plan of {family}")
        if _terms(published.plan) != terms:
            return _InForce(version, note=f"version {version} keeps other guarantees")
        evaluate = families.family(family).room("simulate").evaluate
        outcomes = evaluate(published.plan, samples, definition, loads)
        return _InForce(version, tuple(outcomes))
    except NoPlan:
        return _InForce(note="first plan of the stream")
    except StoreError:
        raise
    except PlanningError as error:
        return _InForce(version, note=f"the published plan cannot be compared: {error}")


def _costs(outcomes: Sequence[Outcome], tolerance: float) -> dict[str, str]:
    """Return where guarantees cost more quality than alternatives lose, if the plan said so."""
    found = {}
    for outcome in outcomes:
        name, quality = outcome.strongest
        said = outcome.predicted_quality - MODEL - SIGMAS * outcome.error
        if _worse(outcome, 1.0 - quality, tolerance) and outcome.quality >= said:
            found[_at(outcome)] = (
                f"{_at(outcome)} its guarantees cost quality: {outcome.quality:.3f} on held-out "
                f"samples, {name}, which does not regard them, has {quality:.3f}; ask for less, or "
                "plan for more capacity"
            )
    return found


def _refusal(
    definition: StreamDefinition,
    outcomes: Sequence[Outcome],
    in_force: _InForce,
    paid: set[str],
) -> str:
    tolerance = definition.gate.tolerance
    if not any(outcome.quality > 0.0 for outcome in outcomes):
        return "its quality on held-out samples is 0 at every load"
    for outcome in outcomes:
        noise = SIGMAS * math.sqrt(outcome.load * (1 - outcome.load) / max(outcome.offered, 1))
        if outcome.passed_fraction > outcome.load + tolerance + noise:
            return (
                f"{_at(outcome)} it passes {outcome.passed_fraction:.3f} of the held-out "
                "samples, above its budget"
            )
    for outcome in outcomes:
        name, quality = outcome.strongest
        if _worse(outcome, 1.0 - quality, tolerance) and _at(outcome) not in paid:
            return (
                f"{_at(outcome)} it loses {1 - outcome.quality:.4f} on held-out samples, {name} "
                f"only {1 - quality:.4f}"
            )
    for outcome, before in zip(outcomes, in_force.outcomes, strict=False):
        if _worse(outcome, 1.0 - before.quality, tolerance):
            return (
                f"{_at(outcome)} it loses {1 - outcome.quality:.4f} on held-out samples, the "
                f"published version {in_force.version} only {1 - before.quality:.4f}"
            )
    return ""


def _at(outcome: Outcome) -> str:
    return "while the load changes" if outcome.schedule else f"at load {outcome.load:g}"


def _worse(outcome: Outcome, loss: float, tolerance: float) -> bool:
    """Whether a plan loses more than another by more than tolerance and chance allow."""
    return 1.0 - outcome.quality > loss * (1.0 + tolerance) + NEGLIGIBLE + SIGMAS * outcome.noise


def _doubts(outcomes: Sequence[Outcome]) -> list[str]:
    """Return what people should know about a plan that may be published all the same."""
    doubts, fixed = [], [o for o in outcomes if not o.schedule]
    off = [o for o in fixed if abs(o.predicted_quality - o.quality) > MODEL]
    if off:
        at = ", ".join(f"{o.predicted_quality:.3f} for {o.quality:.3f}" for o in off)
        doubts.append(
            f"the plan's own model is off on held-out samples ({at}); what was measured is "
            "promised instead. Collect more samples, or plan more often if the stream drifts"
        )
    unsure = max(fixed, key=lambda o: o.error)
    if unsure.error > MARGIN / 2.0:
        doubts.append(
            f"the held-out samples are too few to promise a quality within {MARGIN:g} (standard "
            f"error {unsure.error:.3f} {_at(unsure)}); collect more samples"
        )
    uneven = max(outcomes, key=lambda o: o.spread)
    if uneven.spread > EVEN:
        doubts.append(
            f"{_at(uneven)} quality depends on the size of batches ({_sizes(uneven)}); offer "
            "batches of the size that does best, or collect more samples"
        )
    return doubts


def _sizes(outcome: Outcome) -> str:
    return ", ".join(f"{quality:.3f} at {size}" for size, quality in outcome.by_size.items())


def _gain(outcomes: Sequence[Outcome], in_force: _InForce) -> str:
    loss = mean_loss(outcomes)
    return f"loses {loss:.4f}, version {in_force.version} {mean_loss(in_force.outcomes):.4f}"

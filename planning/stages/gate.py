"""Gate: a plan that would make things worse than what is in force is not published.

The candidate sheds samples it has not seen, at the loads the definition names, beside the published
plan and beside random dropping.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from planning import families
from planning.artifacts import Store, TrustedKeys
from planning.errors import NoPlan, PlanningError
from planning.families import Outcome
from planning.home import Home
from planning.samples import read_columns
from planning.stages.run import Run
from planning.stages.solve import candidate
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
    published, version, note = None, None, ""
    try:
        in_force = Store(home.plans, TrustedKeys.load(home.keys)).load(definition.stream)
        version = in_force.manifest.version
        published = evaluate(in_force.plan, samples, definition, definition.gate.loads)
    except NoPlan:
        note = "first plan of the stream"
    except PlanningError as error:
        note = f"the published plan cannot be compared: {error}"
    refusal = _refusal(definition, outcomes, published, version)
    decision = "refuse" if refusal and not force else "publish"
    reason = f"forced although {refusal}" if refusal and force else refusal or note or _gain(
        outcomes, published, version
    )
    verdict = {
        "decision": decision,
        "reason": reason,
        "outcomes": [asdict(o) for o in outcomes],
        "published_version": version,
        "published_outcomes": [asdict(o) for o in published] if published else [],
    }
    run.write("verdict", verdict)
    return verdict


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


def _refusal(
    definition: StreamDefinition,
    outcomes: Sequence[Outcome],
    published: Sequence[Outcome] | None,
    version: int | None,
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
    if published and loss > mean_loss(published) * (1 + tolerance):
        return (
            f"it loses {loss:.4f} on held-out samples, the published version {version} only "
            f"{mean_loss(published):.4f}"
        )
    return ""


def _gain(
    outcomes: Sequence[Outcome], published: Sequence[Outcome] | None, version: int | None
) -> str:
    loss = mean_loss(outcomes)
    if published is None:
        return f"loses {loss:.4f}, random dropping {random_loss(outcomes):.4f}"
    return f"loses {loss:.4f}, version {version} {mean_loss(published):.4f}"

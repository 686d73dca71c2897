"""Notice that the time correlation has moved away from the plan.

Three steps, each cheap until the one before gives cause. *Misfit*: matches found in what the plan
selects are many, so within a basic window or so they show whether their pattern over the basic
windows is still the plan's. *Doubt*: then, or when the plan seems to catch less of the output than
it promises, more tuples are compared with the whole window; where it finds no more than random
dropping was to find, half of all comparisons are. *Proof*: the order learned on one half of the
evidence would have gained more on the other half, by several standard errors, several times in a
row; or random dropping would have.

All times are in windows, so that a stream on another scale of time is watched alike.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from planning.arrays import FloatArray, IntArray
from planning.joins import path
from planning.joins.control.estimate import CLUSTERING, OnlineEstimate
from planning.joins.model import Windows
from planning.joins.plan import Plan

DOUBT = 0.85  # of the share of output that the plan promises: below, look more closely
CLOSER = 5.0  # times the monitoring
CLOSEST = 12.0  # times, when the pattern does not fit
HEDGED = 1000.0  # times, so as much as may be, when random dropping might find more
MEMORY = 0.5  # windows
PERIOD = 0.05  # windows between two checks
PATIENCE = 4.0  # times the memory: while in doubt, and before the pattern is suspected again
BATCH = 400  # hits that show the pattern
MISFIT_SIGMAS = 4.0
TOLERANCE = 0.1  # relative: the few hundred tuples of a basic window are never quite typical
LEAST_EXPECTED = 8.0  # hits of an item that counts for the pattern
LEAST_EVIDENCE = 200  # hits before anything is proved
FEW = 20  # hits before random dropping is proved to be better
RANDOM_SIGMAS = 2.0  # below what random dropping was to find: hedge; above what it finds: trust
WORSE = 0.9  # of what random dropping finds: stale


@dataclass(eq=False)
class DriftWatch:
    """Evidence against a plan.

    Parameters
    ----------
    values, windows
        Utility of a match per pair of types, and the windows.
    gain, sigmas, checks
        Drift is proved when the learned order would gain this share more, by this many standard
        errors, at this many checks in a row.
    """

    values: FloatArray
    windows: Windows
    gain: float = 0.05
    sigmas: float = 3.0
    checks: int = 3
    recent: OnlineEstimate = field(init=False)
    observed_gain: float = field(default=1.0, init=False)

    def __post_init__(self) -> None:
        longest = max(self.windows.window_s)
        self.memory_s, self.period_s = MEMORY * longest, PERIOD * longest
        self.restart()

    def restart(self) -> None:
        """Forget everything: another plan is to be watched."""
        self.recent = OnlineEstimate(self.values, self.windows.most, self.memory_s)
        self._batch = OnlineEstimate(self.values, self.windows.most, np.inf)
        self._misfits = self._proofs = 0
        self._caught_less = self._hedged = False
        self._made = self._found = 0.0
        self._full_at = np.inf
        self._suspect_until = self._trust_until = self._checked = self._batch_from = -np.inf
        self.observed_gain = 1.0

    @property
    def closeness(self) -> float:
        """How many times the usual monitoring is wanted."""
        if self._hedged:
            return HEDGED
        if np.isfinite(self._suspect_until):
            return CLOSEST
        return CLOSER if self._caught_less else 1.0

    def update(self, hits: IntArray, comparisons: IntArray, elapsed_s: float) -> None:
        """Add what was found since the last time."""
        self.recent.update(hits, comparisons, elapsed_s)
        self._batch.update(hits, comparisons, elapsed_s)
        self._made += float(comparisons.sum())
        self._found += float((hits.sum(axis=(0, 1, 2)) * self.values).sum())

    def proved(self, plan: Plan, now: float, volumes: FloatArray, affordable: float) -> bool:
        """Check the plan, at most once a period; return whether it has been proved stale."""
        self._suspect(plan, now)
        if now - self._checked < self.period_s:
            return False
        self._checked = now
        planned = path.fill(plan.order, volumes, affordable)
        self._compare(plan, now)
        if self.recent.evidence < (FEW if self._hedged else LEAST_EVIDENCE):
            return False
        ratio, beyond = self._beside_random(planned, volumes, affordable)
        sure = beyond < -self.sigmas - (0.0 if self._hedged else 1.0)
        if now >= self._full_at and ratio < WORSE and sure:
            return True
        if self._hedged and beyond > RANDOM_SIGMAS:
            self._hedged, self._trust_until = False, now + PATIENCE * self.memory_s
        ours = theirs = variance = 0.0
        for half in range(2):
            own = path.fill(path.rank(self.recent.density(half)), volumes, affordable)
            worth, doubt = self.recent.measured(1 - half)
            ours += float((own * volumes * worth).sum())
            theirs += float((planned * volumes * worth).sum())
            variance += float((((own - planned) * volumes) ** 2 * doubt).sum())
        self._caught_less = self._caught(plan, planned, volumes) < DOUBT
        if not self._hedged:  # in doubt, evidence is gathered until it suffices
            self.recent.memory_s = self.memory_s * (PATIENCE if self.closeness > 1.0 else 1.0)
        self.observed_gain = ours / theirs if theirs > 0 else (np.inf if ours > 0 else 1.0)
        sure = ours - theirs > self.sigmas * np.sqrt(variance)
        self._proofs = self._proofs + 1 if sure and self.observed_gain > 1.0 + self.gain else 0
        return self._proofs >= self.checks

    def _suspect(self, plan: Plan, now: float) -> None:
        """Look much more closely for a while after two batches in a row that misfit the plan."""
        if now >= self._suspect_until:
            self._suspect_until = -np.inf
        if self._batch.evidence < BATCH or now - self._batch_from < self.period_s:
            return
        misfit = self._misfit(plan) > MISFIT_SIGMAS
        self._batch = OnlineEstimate(self.values, self.windows.most, np.inf)
        self._batch_from = now
        self._misfits = self._misfits + 1 if misfit else 0
        if self._misfits >= 2 and now >= self._trust_until:
            self._suspect_until = now + 2.0 * self.memory_s
            self._trust_until = now + PATIENCE * self.memory_s
            self._begin()

    def _begin(self) -> None:
        """Gather new evidence: what was seen before would only count in the plan's favour."""
        self.recent = OnlineEstimate(self.values, self.windows.most, self.memory_s)
        self._proofs = 0

    def _compare(self, plan: Plan, now: float) -> None:
        """Hedge when less was found than by random dropping, since it last was more.

        Guarantees may want that, and whole windows would break them.
        """
        self._full_at = min(self._full_at, now + max(self.windows.window_s))
        if plan.guarantees or self._hedged or now < max(self._trust_until, self._full_at):
            self._made = self._found = 0.0
            return
        level = float((plan.density * plan.volumes).sum())
        hits = float(plan.hits.sum()) / max(float(plan.comparisons.sum()), 1.0)
        hoped = level * self._made
        doubt = np.sqrt(CLUSTERING * hoped * level / hits) if hits > 0 else np.inf
        if hoped <= self._found:
            self._made = self._found = 0.0
        elif hoped - self._found > RANDOM_SIGMAS * doubt:
            self._hedged = True
            self._begin()
            self.recent.memory_s *= PATIENCE**2  # few hits are enough, but they must be gathered

    def _beside_random(
        self, planned: FloatArray, volumes: FloatArray, affordable: float
    ) -> tuple[float, float]:
        """Return the ratio to what random dropping finds, and the gain in standard errors."""
        made = np.maximum(self.recent.comparisons.sum(axis=0), 1.0)
        share = affordable / max(float(volumes.sum()), 1e-300)
        value, each = self.recent.value.sum(axis=0), volumes / made
        variance = float((((planned - share) * each) ** 2 * self.recent.square.sum(axis=0)).sum())
        ours, random = float((planned * each * value).sum()), share * float((each * value).sum())
        doubt = float(np.sqrt(CLUSTERING * variance))
        return ours / max(random, 1e-300), (ours - random) / max(doubt, 1e-300)

    def _misfit(self, plan: Plan) -> float:
        """Return by how many standard deviations the hits of a batch depart from the pattern.

        Types are taken together, and only shares count: a level that rises or falls everywhere is
        not drift.
        """
        chance = plan.hits / np.maximum(plan.comparisons, 1)
        halves = self._batch.hits.sum(axis=2), (self._batch.comparisons * chance).sum(axis=2)
        hits, expected = (half.sum(axis=0) for half in halves)
        for _ in range(2):  # the level is that of the items that count
            counted = expected >= LEAST_EXPECTED
            if counted.sum() < 2:
                return 0.0
            expected = expected * float(hits[counted].sum()) / float(expected[counted].sum())
        of_plan = expected**2 / np.maximum(plan.hits.sum(axis=1), 1)
        clustered = max(CLUSTERING, _clustering(*(half[:, counted] for half in halves)))
        variance = clustered * (expected + of_plan) + (TOLERANCE * expected) ** 2
        square = ((hits - expected) ** 2 / np.maximum(variance, 1e-300))[counted]
        freedom = float(counted.sum() - 1)
        return float((square.sum() - freedom) / np.sqrt(2.0 * freedom))

    def _caught(self, plan: Plan, take: FloatArray, volumes: FloatArray) -> float:
        """Share of all output that the selection catches now, over what the plan promises.

        Half a standard error in the plan's favour: little is known outside the selection.
        """
        promised = volumes * plan.density
        worth, variance = self.recent.measured()
        value = volumes * worth
        outside = float(((1.0 - take) * value).sum())
        outside -= 0.5 * float(np.sqrt(((volumes * (1.0 - take)) ** 2 * variance).sum()))
        inside = float((take * value).sum())
        share = inside / max(inside + max(outside, 0.0), 1e-300)
        hoped = float((take * promised).sum()) / max(float(promised.sum()), 1e-300)
        return share / hoped if hoped > 0 else 1.0


def _clustering(hits: FloatArray, expected: FloatArray) -> float:
    """Variance of hits over that of Poisson counts, from how the two halves [2, items] differ.

    >>> _clustering(np.array([[90.0, 110.0], [110.0, 90.0]]), np.full((2, 2), 100.0))
    2.0
    """
    both = np.maximum(hits.sum(axis=0) * expected[0] * expected[1], 1e-300)
    return float(np.mean((hits[0] * expected[1] - hits[1] * expected[0]) ** 2 / both))

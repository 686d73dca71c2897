"""The nodes of a stream as a whole: who follows, who does not, and why, in words.

The Plans page, ``headgate nodes`` and the sensor in Airflow say the same, because they ask here.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache

from planning.artifacts.manifest import from_time
from planning.artifacts.reading import Reader
from planning.artifacts.status import Status, plain
from planning.errors import ArtifactError, InvalidInput, NoPlan

STATES = (
    "silent", "refuses", "unreadable", "problem", "waiting", "behind", "expired", "clock off",
    "ready", "in force", "stopped",
)  # fmt: skip
"""Worst first."""
LATE = STATES[:6]
CLOCK_OFF_S = 60.0
NAMED = 3  # nodes whose reasons a summary gives
SHORT = 200  # characters of a reason there
UNITS = (("day", 86400), ("hour", 3600), ("minute", 60), ("second", 1))


@dataclass(frozen=True, slots=True)
class Node:
    """One node's state, in a sentence that begins after its name, and for how long it has lasted.

    Examples
    --------
    >>> edge = Status(node="edge-3", at="2026-01-02T03:04:05Z", version=7, refused={8: "rot"})
    >>> node = judged(edge, newest=8)
    >>> node.name, node.state, node.sentence
    ('edge-3', 'refuses', 'refuses version 8: rot')
    """

    name: str
    state: str
    sentence: str
    lasting_s: float
    status: Status | None = None

    @property
    def kept_share(self) -> float | None:
        """Items kept of those offered; None if that is not known."""
        try:
            counters = self.status.counters if self.status else {}
            share = float(counters["kept"]) / float(counters["offered"])
        except (KeyError, ValueError, ZeroDivisionError, OverflowError):
            return None
        return share if 0 <= share <= 1 else None


@dataclass(frozen=True, slots=True)
class Fleet:
    """All nodes of a stream, the worst first, and the newest version; 0 without any."""

    newest: int
    nodes: tuple[Node, ...]

    @property
    def running(self) -> int:
        """How many run the newest version and can be heard."""
        said = [node.status for node in self.nodes if node.status]
        return sum(runs(s, self.newest) and s.version == self.newest for s in said)

    def counts(self) -> dict[str, int]:
        """Return how many nodes are in each state that occurs, the worst first."""
        states = [node.state for node in self.nodes]
        return {state: states.count(state) for state in STATES if state in states}

    def late(self, within_s: float) -> tuple[Node, ...]:
        """Return the nodes that have not followed for longer than ``within_s``."""
        return tuple(n for n in self.nodes if n.state in LATE and n.lasting_s > within_s)

    def summary(self) -> str:
        """Say in one sentence who follows, and what is wrong with the first of the others.

        >>> at = "2026-01-02T03:04:05Z"
        >>> nodes = [Status(node="edge-1", at=at, version=8),
        ...          Status(node="edge-2", at=at, version=8, heartbeat_s=30, age_s=250)]
        >>> Fleet(8, tuple(judged(node, 8) for node in nodes)).summary()
        '1 of 2 nodes runs version 8; edge-2 was last heard 4 minutes ago'
        """
        there = [node for node in self.nodes if node.state != "stopped"]
        if not there:
            return "No node follows this stream" + (" any longer" if self.nodes else " yet")
        verb = "runs" if self.running == 1 else "run"
        what = f"{verb} version {self.newest}" if self.newest else f"{verb} a plan: there is none"
        wrong = [n for n in self.nodes if n.state in LATE and (self.newest or n.state != "waiting")]
        said = [f"{node.name} {node.sentence[:SHORT]}" for node in wrong[:NAMED]]
        if len(wrong) > NAMED:
            said.append(f"and {len(wrong) - NAMED} more do not follow")
        return "; ".join([f"{self.running} of {len(there)} nodes {what}", *said])


def runs(status: Status, version: int) -> bool:
    """Whether a node runs at least ``version``, as far as it can still be heard."""
    return status.version >= max(version, 1) and not (status.silent or status.state == "stopped")


def fleet(reader: Reader, stream: str, now: datetime | None = None) -> Fleet:
    """Return the nodes of a stream.

    Examples
    --------
    >>> from planning.examples import demo_store
    >>> store, _ = demo_store("sifter", versions=2)
    >>> store.report("ticks", Status(node="edge-7", at="2026-01-02T03:04:05Z", version=1))
    >>> [(node.name, node.state, node.sentence) for node in fleet(store, "ticks").nodes]
    [('edge-7', 'behind', 'runs version 1 of 2')]
    """
    moment = now or datetime.now(UTC)
    try:
        versions = reader.versions(stream)
    except NoPlan:
        versions = ()

    @cache
    def waited_s(version: int) -> float:
        """Seconds since the first version after ``version`` was published."""
        newer = [v for v in versions if v > version]
        try:
            published = reader.unverified(stream, newer[0]).created_at if newer else None
        except (ArtifactError, NoPlan, OSError):  # if that cannot be known, it may be long ago
            return math.inf
        return (moment - from_time("created_at", published)).total_seconds() if published else 0.0

    newest = versions[-1] if versions else 0
    listing = reader.nodes(stream)
    nodes = [judged(status, newest, waited_s(status.version)) for status in listing]
    nodes += [
        Node(
            broken.name.removesuffix(".json"),
            "unreadable",
            _line(f"has no readable status: {broken.problem}"),
            math.inf,
        )
        for broken in listing.broken
    ]
    return Fleet(newest, tuple(sorted(nodes, key=lambda n: (STATES.index(n.state), n.name))))


def judged(status: Status, newest: int, waited_s: float = 0.0) -> Node:
    """Return a node's state, given the newest version and since when there is one to take over."""
    state, sentence, lasting_s = _judged(status, newest, max(0.0, waited_s))
    return Node(status.node, state, _line(sentence), lasting_s, status)


def _judged(status: Status, newest: int, waited_s: float) -> tuple[str, str, float]:
    troubled_s = lasting_s(status, status.problem_since)
    runs = f"runs version {status.version}"
    if status.state == "stopped":
        return "stopped", f"was stopped {span(status.age_s)} ago", status.age_s
    if status.silent:
        return "silent", f"was last heard {span(status.age_s)} ago", status.age_s
    if 0 < (refused := status.refuses) <= newest:
        reason = f"refuses version {refused}: {status.refused[refused]}"
        return "refuses", reason, waited_s if troubled_s is None else troubled_s
    if status.problem:
        since = "" if troubled_s is None else f" for {span(troubled_s)}"
        return "problem", f"has a problem{since}: {status.problem}", troubled_s or 0.0
    if status.version < newest:
        if status.ready >= newest:
            return "ready", f"takes version {status.ready} over with its next batch", 0.0
        if status.version == 0:
            return "waiting", f"has not taken version {newest} yet", waited_s
        return "behind", f"{runs} of {newest}", waited_s
    if status.state == "expired":
        return "expired", f"{runs}, whose validity has ended", 0.0
    if abs(status.clock_skew_s) >= CLOCK_OFF_S:
        where = "ahead" if status.clock_skew_s > 0 else "behind"
        return "clock off", f"{runs}; its clock is {span(abs(status.clock_skew_s))} {where}", 0.0
    if status.version == 0:
        return "waiting", "waits for a first plan", 0.0
    return "in force", runs, 0.0


def lasting_s(status: Status, since: str | None) -> float | None:
    """Return for how long something has lasted, by the node's own clock until its last word."""
    try:
        began, told = from_time("since", since or ""), from_time("at", status.at)
    except InvalidInput:
        return None
    return max(0.0, (told - began).total_seconds()) + max(0.0, status.age_s)


def span(seconds: float) -> str:
    """Say how long something lasts.

    >>> span(250), span(3600), span(0.2), span(math.inf)
    ('4 minutes', '1 hour', '0 seconds', '9999 days')
    """
    bounded = min(max(seconds, 0.0), 9999 * 86400)
    unit, length = next(((u, s) for u, s in UNITS if bounded >= s), UNITS[-1])
    count = int(bounded // length)
    return f"{count} {unit}{'' if count == 1 else 's'}"


def _line(words: str) -> str:
    """Return text of others as one line that a terminal only shows."""
    return "".join(c if c.isprintable() else " " for c in plain(words))

"""Statuses: what every node says about itself, again and again, and at once when it changes."""

from __future__ import annotations

import re
from typing import Annotated, Literal

import msgspec
from msgspec import Meta, Struct

from planning.artifacts.manifest import STREAM_PATTERN, Time, from_time
from planning.errors import ArtifactError, InvalidInput

NODE_PATTERN = r"^[A-Za-z0-9_][A-Za-z0-9._-]{0,127}$"
MISSED = 3  # heartbeats after which a node counts as silent
MOST_CHARACTERS = 1000
State = Literal["waiting", "in force", "expired", "stopped"]


class Status(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One node's word on one stream.

    Parameters
    ----------
    version, ready
        The version that decides on items, and the one that the next batch will take over; 0
        without any. They are equal except on a node whose stream rests.
    seen
        Highest version that this node has ever verified.
    refused
        Versions that it refused, and why.
    problem, problem_since
        What keeps it from following new versions, if anything, and since when.
    reached_at
        When plans could last be looked up, also before a restart.
    clock_skew_s
        How far its clock is ahead of that of the server it asks, if it asks one.
    age_s
        Seconds since the status was written, by the store's clock; filled in by those who read it.

    Examples
    --------
    >>> from planning.examples import demo_store
    >>> store, _ = demo_store("sifter")
    >>> store.report("ticks", Status(node="edge-7", at="2026-01-02T03:04:05Z", version=1,
    ...                              counters={"kept": 510}))
    >>> [(node.node, node.version, node.silent) for node in store.nodes("ticks")]
    [('edge-7', 1, False)]
    """

    node: Annotated[str, Meta(pattern=NODE_PATTERN)]
    at: Time
    stream: Annotated[str, Meta(pattern=STREAM_PATTERN)] | None = None
    state: State = "in force"
    version: Annotated[int, Meta(ge=0)] = 0
    ready: Annotated[int, Meta(ge=0)] = 0
    seen: Annotated[int, Meta(ge=0)] = 0
    started_at: Time | None = None
    since: Time | None = None
    heartbeat_s: Annotated[float, Meta(ge=0)] = 0.0
    refused: dict[int, str] = {}
    problem: str = ""
    problem_since: Time | None = None
    reached_at: Time | None = None
    clock_skew_s: float = 0.0
    load: float | dict[str, float] = 1.0
    fallback: str = ""
    refused_batch: str = ""
    error: str = ""
    throttle_error: str = ""
    report_error: str = ""
    counters: dict[str, int | float | str] = {}
    age_s: float = 0.0

    @property
    def silent(self) -> bool:
        """Whether it should have been heard of since; never for nodes that promise no heartbeat."""
        return self.state != "stopped" and 0 < MISSED * self.heartbeat_s < self.age_s

    @property
    def refuses(self) -> int:
        """The newest version that it refused, if that is newer than what it runs; else 0."""
        newest = max(self.refused, default=0)
        return newest if newest > max(self.version, self.ready) else 0


def encode(status: Status) -> bytes:
    """Return the file's content."""
    return msgspec.json.encode(status)


def decode(data: bytes, source: str) -> Status:
    """Return the status in ``data``, or raise :class:`ArtifactError`."""
    try:
        status = msgspec.json.decode(data, type=Status)
        for field in ("at", "started_at", "since", "problem_since", "reached_at"):
            if (moment := getattr(status, field)) is not None:
                from_time(field, moment)
        return status
    except (msgspec.MsgspecError, UnicodeError, RecursionError, InvalidInput) as error:
        raise ArtifactError(
            f"{source} is not a node's status ({error}); remove it; the node writes a new one"
        ) from None


def plain(words: object) -> str:
    """Return words as a short text that every reader can decode.

    >>> plain(ValueError("a lone surrogate: " + chr(0xD800)))
    'a lone surrogate: ?'
    """
    text = words if isinstance(words, str) else str(words) or repr(words)
    return text[:MOST_CHARACTERS].encode("utf-8", errors="replace").decode()


def check_node(node: str) -> str:
    """Return a node's name if it can be a file name.

    >>> check_node("edge-7.example")
    'edge-7.example'
    """
    if not re.fullmatch(NODE_PATTERN, node):
        raise InvalidInput(
            f"node must be a name of at most 128 letters, digits, '.', '-' and '_', got {node!r}"
        )
    return node

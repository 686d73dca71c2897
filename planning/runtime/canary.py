"""Phased roll-out: a stable part of the nodes takes a new version first."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

from planning.artifacts import Manifest
from planning.artifacts.manifest import from_time
from planning.errors import InvalidInput, check_between


@dataclass(frozen=True, slots=True)
class Canary:
    """Which nodes take a version at once; the others wait ``hold_s`` after its creation.

    Whether a node is a canary depends on a hash of its name, so the same nodes go first every time,
    and raising the fraction only adds nodes. Another ``salt`` picks other nodes. Every
    node takes a rollback at once.

    Examples
    --------
    >>> nodes = [f"edge-{number}" for number in range(1000)]
    >>> [sum(Canary(share).includes(node, "ticks") for node in nodes) for share in (0.0, 0.1, 1.0)]
    [0, 110, 1000]
    """

    fraction: float
    salt: str = ""
    hold_s: float = 3600.0

    def __post_init__(self) -> None:
        check_between("canary.fraction", self.fraction, 0.0, 1.0)
        if not self.hold_s >= 0:
            raise InvalidInput(f"canary.hold_s must be at least 0, got {self.hold_s}")

    def includes(self, node: str, stream: str) -> bool:
        """Whether a node is among those that go first."""
        digest = hashlib.sha256("\0".join((self.salt, stream, node)).encode()).digest()
        return int.from_bytes(digest[:6], "big") < self.fraction * 2**48

    def admits(self, manifest: Manifest, node: str, now_s: float) -> bool:
        """Whether a node may take a version now."""
        if self.includes(node, manifest.stream) or manifest.rollback_of is not None:
            return True
        return now_s >= from_time("created_at", manifest.created_at).timestamp() + self.hold_s

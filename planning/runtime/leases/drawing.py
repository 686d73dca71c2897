"""How shedders draw on a lease: as their throttle, or as a budget beside another one."""

from __future__ import annotations

from planning.runtime.feed_forward import Bucket, FeedForwardThrottle
from planning.runtime.leases.capacity import LeasedCapacity


class Draw(Bucket):
    """The tokens of a lease, as one throttle sees them: a batch reserves what it may need."""

    def __init__(self, lease: LeasedCapacity) -> None:
        super().__init__(0.0, 0.0)
        self.lease = lease
        self.offered = 0.0

    def at(self, now_s: float) -> float:
        """Return the tokens there are; ``tokens`` are those reserved for this batch."""
        if self.tokens:
            self.spend(0.0)  # the last batch failed, and nothing of it passed
        there, self.tokens = self.lease.reserve(self.offered, self.offered)
        return there

    def spend(self, tokens: float) -> None:
        """Pay for what passed, and free the rest."""
        self.lease.settle(int(self.tokens), tokens)
        self.tokens = 0.0


class LeasedThrottle(FeedForwardThrottle):
    """Holds what passes to this member's share of the fleet's capacity.

    ``capacity_per_s`` and ``slack`` are those of the share at the last batch; for the parameters
    see :class:`FeedForwardThrottle`. Every shedder has its own throttle; they may share a lease.

    >>> lease = LeasedCapacity("redis://hub", "ticks", member="edge-7", path="lease.json")
    >>> throttle = LeasedThrottle(lease)  # not started: it has no share
    >>> throttle.before(0.0, offered=1000), throttle.allowed()
    (0.001, 0)
    """

    def __init__(
        self,
        lease: LeasedCapacity,
        *,
        window_s: float = 1.0,
        hysteresis: float = 0.05,
        floor: float = 0.001,
    ) -> None:
        super().__init__(1.0, window_s=window_s, hysteresis=hysteresis, floor=floor)
        self.lease = lease
        self._bucket: Draw = Draw(lease)

    def before(self, now_s: float, offered: float) -> float:
        """Return the share of a batch that the plan is asked for."""
        share = self.lease.bucket
        self._bucket.offered = offered
        self.capacity_per_s, self.slack = share.rate, max(share.depth, 1e-9)
        return super().before(now_s, offered)


class LeasedBudget:
    """A member's share as a shedder's ``budget``: a hard limit beside any throttle.

    >>> lease = LeasedCapacity("redis://hub", "ticks", member="edge-7", path="lease.json")
    >>> LeasedBudget(lease).take(1000, wanted=500, z=0.5)  # not started: it has no share
    0
    """

    def __init__(self, lease: LeasedCapacity) -> None:
        self.lease = lease
        self._granted = 0

    def take(self, offered: int, wanted: int, z: float) -> int:
        """Reserve up to ``wanted`` units; return how many may pass."""
        _, self._granted = self.lease.reserve(wanted, wanted)
        return self._granted

    def give_back(self, unused: int) -> None:
        """Free what did not pass after all, and pay for the rest."""
        self.lease.settle(self._granted, self._granted - unused)
        self._granted = 0

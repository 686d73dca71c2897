"""What runs on a source node: follow published plans, and shed with them.

>>> from planning.runtime import PlanClient, RunningShedder
"""

from typing import TYPE_CHECKING, Any

from planning import lazy

if TYPE_CHECKING:
    from planning.runtime.budget import SharedBudget
    from planning.runtime.canary import Canary
    from planning.runtime.client import PlanClient
    from planning.runtime.counters import Counters
    from planning.runtime.feed_forward import CpuShare, FeedForwardThrottle
    from planning.runtime.leases import LeasedBudget, LeasedCapacity, LeasedThrottle
    from planning.runtime.marking import SampleMarker, SampleWriter
    from planning.runtime.rates import RateMonitor
    from planning.runtime.shedding import RunningShedder
    from planning.runtime.throt_loop import ThrotLoop
    from planning.runtime.throttle import FixedThrottle, Throttle

__all__ = [
    "Canary",
    "Counters",
    "CpuShare",
    "FeedForwardThrottle",
    "FixedThrottle",
    "LeasedBudget",
    "LeasedCapacity",
    "LeasedThrottle",
    "PlanClient",
    "RateMonitor",
    "RunningShedder",
    "SampleMarker",
    "SampleWriter",
    "SharedBudget",
    "ThrotLoop",
    "Throttle",
]
ROOMS = {
    "Canary": "canary",
    "Counters": "counters",
    "CpuShare": "feed_forward",
    "FeedForwardThrottle": "feed_forward",
    "FixedThrottle": "throttle",
    "LeasedBudget": "leases",
    "LeasedCapacity": "leases",
    "LeasedThrottle": "leases",
    "PlanClient": "client",
    "RateMonitor": "rates",
    "RunningShedder": "shedding",
    "SampleMarker": "marking",
    "SampleWriter": "marking",
    "SharedBudget": "budget",
    "ThrotLoop": "throt_loop",
    "Throttle": "throttle",
}


def __getattr__(name: str) -> Any:
    return lazy.load(__name__, name, ROOMS)

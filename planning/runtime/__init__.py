"""What runs on a source node: follow published plans, and shed with them."""

from planning.runtime.budget import SharedBudget
from planning.runtime.canary import Canary
from planning.runtime.client import PlanClient
from planning.runtime.counters import Counters
from planning.runtime.marking import SampleMarker, SampleWriter
from planning.runtime.shedding import RunningShedder
from planning.runtime.throttle import FeedForwardThrottle, FixedThrottle, ThrotLoop, Throttle

__all__ = [
    "Canary",
    "Counters",
    "FeedForwardThrottle",
    "FixedThrottle",
    "PlanClient",
    "RunningShedder",
    "SampleMarker",
    "SampleWriter",
    "SharedBudget",
    "ThrotLoop",
    "Throttle",
]

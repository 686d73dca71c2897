"""The profile of a stream: sizes, cycle, lag errors and dead-band behaviour per attribute.

``sums`` has what is added up over an entity's reports, ``profile`` the result, ``build`` the way
from samples to the result.
"""

from planning.attributes.statistics.build import TupleFormat, build, profile_observed, window_of
from planning.attributes.statistics.profile import AttributeProfile, Statistics, StreamProfile

__all__ = [
    "AttributeProfile",
    "Statistics",
    "StreamProfile",
    "TupleFormat",
    "build",
    "profile_observed",
    "window_of",
]

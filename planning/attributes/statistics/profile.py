"""What statistics are: the profile of every attribute in every stream of the channel."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec

from planning.arrays import FloatArray, finite_array, frozen
from planning.attributes.codec import plain
from planning.attributes.cycles import CycleIdentifier
from planning.attributes.statistics import sums

CURVES = (
    ("lag_error", len(sums.LAGS)),
    ("band_rate", len(sums.BANDS)),
    ("band_error", len(sums.BANDS)),
)


@dataclass(frozen=True, slots=True, eq=False)
class AttributeProfile:
    """What is known about one attribute in one stream."""

    name: str
    kind: str  # number, category or text
    size: int  # bytes charged per value
    present: float  # fraction of reports that are not null
    scale: float  # unit of distance, see planning.attributes.statistics.sums
    deviation: float  # SD of the smoothed last window (paper IV-C2)
    lag_error: FloatArray  # D per lag
    band_rate: FloatArray  # fraction of reports sent per dead band
    band_error: FloatArray

    def hold_error(self, period: int) -> float:
        """Return H(period), the loss of sending every ``period``-th report (0: never)."""
        return sums.hold_error(sums.LAGS, self.lag_error, period)

    @property
    def score(self) -> float:
        """Information score: what holding one report longer loses, per byte."""
        return self.hold_error(2) / self.size if self.size else 0.0


@dataclass(frozen=True, slots=True, eq=False)
class StreamProfile:
    """One stream of the channel."""

    name: str
    tuples: int
    entities: int
    cycle: CycleIdentifier
    attributes: tuple[AttributeProfile, ...]
    band_tuples: FloatArray = field(default_factory=lambda: frozen([]))
    """Fraction of the reports with anything due when all dead bands are equal, per band."""


@dataclass(frozen=True, slots=True, eq=False)
class Statistics:
    """The profiles of all streams that share the channel; usually one.

    >>> import numpy as np
    >>> from planning.attributes.parameters import Parameters
    >>> from planning.attributes.statistics import profile_observed
    >>> i = np.arange(600)
    >>> samples = {"station": i % 6, "level": i // 60, "load": (i * 7919) % 997}
    >>> (stream,) = profile_observed(samples, Parameters()).streams
    >>> stream.cycle.cid, [(a.name, round(a.score, 4)) for a in stream.attributes]
    (('station',), [('station', 0.0), ('level', 0.0003), ('load', 0.0832)])
    """

    streams: tuple[StreamProfile, ...]
    refresh_reports: int  # dead bands were measured with this refresh

    def to_document(self) -> dict[str, Any]:
        """Return the JSON form."""
        return {"refresh_reports": self.refresh_reports, "streams": plain(self.streams)}

    @classmethod
    def from_document(cls, document: Mapping[str, Any]) -> Statistics:
        """Read the JSON form back."""
        read = msgspec.convert(document, cls, dec_hook=lambda _, values: frozen(values))
        for attribute in (a for stream in read.streams for a in stream.attributes):
            for curve, points in CURVES:
                name = f"{curve} of {attribute.name}"
                finite_array(name, getattr(attribute, curve), (points,))
        return read

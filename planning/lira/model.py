"""The paper's nouns that everything shares: the frame in which regions and thresholds are named."""

from __future__ import annotations

import struct
import zlib
from dataclasses import dataclass

import numpy as np

from planning.arrays import FloatArray
from planning.errors import InvalidInput

WIDE = struct.Struct("<BHH6d")  # flag, side, segments, bounds, Δmin, Δmax
NARROW = struct.Struct("<BHH6f")


@dataclass(frozen=True, slots=True)
class Frame:
    """What plan, stations and nodes agree on before any plan exists.

    Attributes
    ----------
    bounds
        x_low, y_low, x_high, y_high of the space, metres.
    side
        α, cells on each side of the statistics grid.
    low, high, segments
        Δmin, Δmax and κ: throttlers lie on Δmin + k·(Δmax − Δmin)/κ but for a few.
    """

    bounds: tuple[float, float, float, float]
    side: int
    low: float
    high: float
    segments: int

    def __post_init__(self) -> None:
        x_low, y_low, x_high, y_high = self.bounds
        if not (np.isfinite(self.bounds).all() and x_low < x_high and y_low < y_high):
            raise InvalidInput(
                f"bounds must be finite with x_low < x_high and y_low < y_high, got {self.bounds}"
            )
        if not (0 <= self.low < self.high < np.inf and 1 <= self.segments <= 4096):
            raise InvalidInput(
                "thresholds must satisfy 0 <= Δmin < Δmax with 1 to 4096 segments, got "
                f"{self.low:g}, {self.high:g} and {self.segments}"
            )
        if not 1 <= self.side <= 8192:
            raise InvalidInput(f"the grid must have 1 to 8192 cells a side, got {self.side}")

    @property
    def thresholds(self) -> FloatArray:
        """The breakpoints Δmin + k·c."""
        return self.low + (self.high - self.low) * np.arange(self.segments + 1) / self.segments

    @property
    def cell_size(self) -> tuple[float, float]:
        """Width and height of a cell, metres."""
        x_low, y_low, x_high, y_high = self.bounds
        return (x_high - x_low) / self.side, (y_high - y_low) / self.side

    def to_bytes(self) -> bytes:
        """Return the frame in 29 bytes if single precision holds it exactly, else in 53."""
        numbers = (*self.bounds, self.low, self.high)
        narrow = np.array(numbers, dtype=np.float32)
        if (narrow.astype(np.float64) == numbers).all():
            return NARROW.pack(0, self.side, self.segments, *numbers)
        return WIDE.pack(1, self.side, self.segments, *numbers)

    @classmethod
    def read(cls, data: bytes) -> tuple[Frame, int]:
        """Read a frame at the start of ``data``; return it and its length."""
        layout = WIDE if data[:1] == b"\x01" else NARROW
        try:
            _, side, segments, a, b, c, d, low, high = layout.unpack_from(data)
        except struct.error as error:
            raise InvalidInput(f"a frame takes {layout.size} bytes, got fewer: {error}") from None
        return cls((a, b, c, d), side, low, high, segments), layout.size

    @property
    def tag(self) -> int:
        """Sixteen bits by which a message names the frame it belongs to."""
        return zlib.crc32(self.to_bytes()) & 0xFFFF

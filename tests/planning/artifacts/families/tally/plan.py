"""The plan: ascending cuts; the load says which one holds."""

import struct
from dataclasses import dataclass

import msgspec


class PlanDocument(msgspec.Struct, forbid_unknown_fields=True):
    """A tally plan as published."""

    label: str
    cuts: list[float]


@dataclass(frozen=True)
class Plan:
    label: str
    cuts: tuple[float, ...]

    def at(self, load: float) -> float:
        return self.cuts[min(int((1.0 - load) * len(self.cuts)), len(self.cuts) - 1)]

    def predicted_quality(self, load: float) -> float:
        return load

    def summary(self) -> dict[str, object]:
        return {"cuts": len(self.cuts)}

    def to_document(self) -> dict[str, object]:
        return {"label": self.label, "cuts": list(self.cuts)}

    @classmethod
    def from_document(cls, document: dict[str, object]) -> "Plan":
        read = msgspec.convert(document, PlanDocument)
        return cls(read.label, tuple(read.cuts))

    def to_bytes(self) -> bytes:
        label = self.label.encode()
        return struct.pack(f"<B{len(self.cuts)}d", len(label), *self.cuts) + label

    @classmethod
    def from_bytes(cls, payload: bytes) -> "Plan":
        size = payload[0]
        count, rest = divmod(len(payload) - 1 - size, 8)
        if rest or count < 1:
            raise ValueError(f"{len(payload)} bytes do not hold whole numbers")
        cuts = struct.unpack_from(f"<{count}d", payload, 1)
        return cls(payload[1 + 8 * count :].decode(), cuts)

"""The codec kit: bounded reading and canonical writing of plans, for every family's ``codec``.

A family describes its fields; the kit reads and writes them. Numbers are little-endian. A reader
checks every size against the bytes left before it allocates memory, and whatever is wrong with
a payload becomes one :class:`~planning.errors.ArtifactError` that names the plan.

>>> data = packed([0.5, 0.25], "<f4") + bits([True, False, True])
>>> reader = Reader(data, "sifter plan")
>>> reader.floats("<f4", 2).tolist(), reader.bits(3).tolist()
([0.5, 0.25], [True, False, True])
>>> reader.finish()
"""

from __future__ import annotations

import math
import struct
import zlib
from collections.abc import Mapping
from typing import Any, TypeVar

import msgspec
import numpy as np
from numpy.typing import ArrayLike, NDArray

from planning.arrays import BoolArray, FloatArray, IntArray, frozen, frozen_ints
from planning.errors import ArtifactError

FETCH_AGAIN = "fetch it again from the store"
T = TypeVar("T")


def packed(values: ArrayLike, kind: str) -> bytes:
    """Return numbers as consecutive bytes; ``kind`` is a NumPy type such as ``<f4``.

    >>> packed([1, 258], "<u2").hex()
    '01000201'
    """
    return np.ascontiguousarray(values, dtype=kind).tobytes()


def bits(values: ArrayLike) -> bytes:
    """Return flags as bits, the first one in the highest bit.

    >>> bits([True, False, False, True]).hex()
    '90'
    """
    return np.packbits(np.asarray(values, dtype=np.bool_)).tobytes()


def message(content: Any) -> bytes:
    """Return MessagePack; mappings keep their order."""
    return msgspec.msgpack.encode(content)


def converted(document: Any, kind: type[T], what: str) -> T:
    """Return a JSON document as the msgspec type that describes it.

    >>> class Point(msgspec.Struct, forbid_unknown_fields=True):
    ...     x: float
    >>> converted({"x": 1}, Point, "sifter plan").x
    1.0
    >>> converted({"y": 1}, Point, "sifter plan")
    Traceback (most recent call last):
    ...
    planning.errors.ArtifactError: sifter plan must fit its schema, got: Object contains unknown \
field `y`; fetch it again from the store
    """
    try:
        return msgspec.convert(document, kind)
    except msgspec.ValidationError as error:
        raise damaged(what, "fit its schema", error) from None


def damaged(what: str, must: str, error: object) -> ArtifactError:
    """Return the error for a plan that cannot be read."""
    return ArtifactError(f"{what} must {must}, got: {error}; {FETCH_AGAIN}")


def table(values: ArrayLike, shape: tuple[int, ...], what: str, name: str) -> NDArray[Any]:
    """Return a JSON list as an array of this shape; a list of another size is refused.

    >>> table([1.0, 2.0], (1, 2), "joins plan", "density").shape
    (1, 2)
    >>> table([1.0], (1, 2), "joins plan", "density")
    Traceback (most recent call last):
    ...
    planning.errors.ArtifactError: joins plan must hold 1 x 2 values of density, got: 1; \
fetch it again from the store
    """
    sizes = " x ".join(str(length) for length in shape)
    try:
        array = np.asarray(values)
    except ValueError:
        raise damaged(what, f"hold {sizes} values of {name}", "rows of several lengths") from None
    if array.dtype.kind == "O":  # whole numbers beyond 64 bits
        raise damaged(what, f"hold numbers of 64 bits in {name}", "larger ones")
    if array.size != math.prod(shape):
        raise damaged(what, f"hold {sizes} values of {name}", array.size)
    return array.reshape(shape)


class Reader:
    """Reads a payload from front to back; never past its end.

    >>> Reader(b"HSP1", "sifter plan").take(5)
    Traceback (most recent call last):
    ...
    planning.errors.ArtifactError: sifter plan must have 5 bytes, got: 4; fetch it again from the \
store
    """

    def __init__(self, payload: bytes, what: str) -> None:
        self.what = what
        self._payload = memoryview(payload)
        self._place = 0

    @property
    def left(self) -> int:
        """Bytes that have not been read."""
        return len(self._payload) - self._place

    def take(self, size: int) -> memoryview:
        """Return the next ``size`` bytes."""
        if not 0 <= size <= self.left:
            raise damaged(self.what, f"have {self._place + size} bytes", len(self._payload))
        self._place += size
        return self._payload[self._place - size : self._place]

    def rest(self) -> bytes:
        """Return all that is left."""
        return bytes(self.take(self.left))

    def magic(self, expected: bytes) -> None:
        """Check and skip the bytes that name the format."""
        given = bytes(self.take(min(len(expected), self.left)))
        if given != expected:
            raise damaged(self.what, f"start with {expected!r}", repr(given))

    def unpack(self, layout: struct.Struct) -> tuple[Any, ...]:
        """Return a fixed group of fields."""
        return layout.unpack(self.take(layout.size))

    def numbers(self, kind: str, *shape: int) -> NDArray[Any]:
        """Return an array as it is stored; its size is checked before it is allocated."""
        dtype = np.dtype(kind)
        return np.frombuffer(self.take(dtype.itemsize * math.prod(shape)), dtype).reshape(shape)

    def floats(self, kind: str, *shape: int) -> FloatArray:
        """Return numbers as read-only float64."""
        return frozen(self.numbers(kind, *shape))

    def ints(self, kind: str, *shape: int) -> IntArray:
        """Return numbers as read-only int64."""
        return frozen_ints(self.numbers(kind, *shape))

    def bits(self, count: int) -> BoolArray:
        """Return flags."""
        stored = self.numbers("u1", (count + 7) // 8)
        return np.unpackbits(stored, count=count).astype(np.bool_)

    def message(self, kind: type[T] | Any, size: int | None = None) -> T:
        """Return the next ``size`` bytes of MessagePack (by default the rest) as a type."""
        data = self.rest() if size is None else self.take(size)
        try:
            read: T = msgspec.msgpack.decode(data, type=kind)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            raise damaged(self.what, "be whole", error) from None
        return read

    def finish(self) -> None:
        """Refuse anything that follows the last field."""
        if self.left:
            raise damaged(self.what, f"end after {self._place} bytes", len(self._payload))


def inflated(data: bytes, size: int, what: str) -> bytes:
    """Decompress to exactly ``size`` bytes; a longer result is refused before it is allocated.

    >>> inflated(zlib.compress(b"HGA1"), 4, "attributes plan")
    b'HGA1'
    >>> inflated(zlib.compress(bytes(10**6)), 4, "attributes plan")
    Traceback (most recent call last):
    ...
    planning.errors.ArtifactError: attributes plan must hold 4 bytes of tables, got: another \
length; fetch it again from the store
    """
    stream = zlib.decompressobj()
    try:
        raw = stream.decompress(data, size + 1)
    except zlib.error as error:
        raise damaged(what, "be whole", error) from None
    if len(raw) != size or not stream.eof or stream.unused_data:
        raise damaged(what, f"hold {size} bytes of tables", "another length")
    return raw


def typed_arrays(arrays: Mapping[str, NDArray[Any]]) -> dict[str, dict[str, Any]]:
    """Return arrays as JSON objects that carry type and shape.

    >>> typed_arrays({"child": np.array([[1, 2]])})
    {'child': {'type': 'int', 'shape': [1, 2], 'values': [1, 2]}}
    """
    return {
        name: {"type": _kind(a), "shape": list(a.shape), "values": _plain(a)}
        for name, a in arrays.items()
    }


class ArrayDocument(msgspec.Struct, forbid_unknown_fields=True):
    """An array of ``float``, ``int`` or ``bool`` (0 or 1) in row-major order."""

    type: str
    shape: list[int]
    values: list[float]

    def array(self, what: str, name: str) -> NDArray[Any]:
        """Return the array, read-only."""
        kind = _dtype(self.type, what, name)
        try:
            values = np.array(self.values, dtype=kind)
        except (OverflowError, ValueError) as error:
            raise damaged(what, f"hold values of type {self.type} in {name}", error) from None
        return _shaped(values, self.shape, what, name)


class PackedArray(msgspec.Struct, array_like=True):
    """An array in MessagePack: type, shape and raw little-endian bytes."""

    type: str
    shape: list[int]
    data: bytes

    @classmethod
    def of(cls, array: NDArray[Any]) -> PackedArray:
        """Return the packed form of an array."""
        kind = _kind(array)
        return cls(kind, list(array.shape), packed(array, DTYPES[kind]))

    def array(self, what: str, name: str) -> NDArray[Any]:
        """Return the array, read-only."""
        kind = np.dtype(_dtype(self.type, what, name))
        if len(self.data) % kind.itemsize:
            raise damaged(what, f"hold whole numbers of bytes in {name}", len(self.data))
        return _shaped(np.frombuffer(self.data, kind), self.shape, what, name)


DTYPES = {"float": "<f8", "int": "<i8", "bool": "?"}
"""The kinds of typed arrays, and how they are packed."""


def _dtype(kind: str, what: str, name: str) -> str:
    if kind not in DTYPES:
        raise damaged(what, f"have {name} of type {', '.join(DTYPES)}", repr(kind))
    return DTYPES[kind]


def _kind(array: NDArray[Any]) -> str:
    return {"f": "float", "i": "int", "b": "bool"}[array.dtype.kind]


def _plain(array: NDArray[Any]) -> list[Any]:
    flat = array.ravel()
    values: list[Any] = (flat.astype(np.int64) if array.dtype.kind == "b" else flat).tolist()
    return values


def _shaped(flat: NDArray[Any], shape: list[int], what: str, name: str) -> NDArray[Any]:
    if min(shape, default=0) < 0:
        raise damaged(what, f"have lengths of at least 0 in {name}", shape)
    array = table(flat, tuple(shape), what, name)
    array.flags.writeable = False
    return array

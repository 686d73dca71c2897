"""Results of looking through a folder in which some files may be damaged."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Generic, TypeVar

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Broken:
    """A file that cannot be used, and why.

    Examples
    --------
    >>> from planning.examples import demo_store
    >>> store, _ = demo_store("sifter", versions=2)
    >>> _ = store.manifest_path("ticks", 2).write_bytes(b"half a manif")
    >>> [broken] = store.history("ticks").broken
    >>> broken.name, broken.problem.split(" (")[0].endswith("00000002.json is not a manifest")
    ('00000002', True)
    """

    name: str
    problem: str


@dataclass(frozen=True, slots=True, eq=False)
class Listing(Generic[T]):
    """What is sound, as a sequence, and separately what is not: nothing is skipped silently.

    Examples
    --------
    >>> list(Listing((3, 2), (Broken("1", "truncated"),)))
    [3, 2]
    """

    sound: tuple[T, ...]
    broken: tuple[Broken, ...] = ()

    def __iter__(self) -> Iterator[T]:
        return iter(self.sound)

    def __len__(self) -> int:
        return len(self.sound)

    def __getitem__(self, index: int) -> T:
        return self.sound[index]

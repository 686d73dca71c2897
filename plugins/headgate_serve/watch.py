"""Waiting for news: however many wait for a stream, one of them looks at the store for all."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Collection
from dataclasses import dataclass, field

from planning.artifacts import Reader, files
from planning.errors import ArtifactError, NoPlan, StoreError

LOCAL_S, REMOTE_S = 0.2, 1.0  # between two looks at a folder, and at an object store


@dataclass(frozen=True, slots=True)
class Newest:
    """The newest version's manifest as it lies in the store, sound or not."""

    version: int
    body: bytes
    tag: str


def newest(reader: Reader, stream: str) -> Newest:
    """Return the newest version's manifest; a store that is missing is an error.

    >>> from planning.examples import demo_store
    >>> store, _ = demo_store("sifter", versions=2)
    >>> newest(store, "ticks").version
    2
    """
    try:
        version = reader.newest(stream)
        try:
            body = reader.manifest_bytes(stream, version)
        except ArtifactError:  # no file at all: nodes refuse this version and try the one before
            body = b""
    except NoPlan:
        check_there(reader)
        raise
    except FileNotFoundError:
        raise StoreError(f"{reader.manifest_path(stream, version)} is being removed") from None
    return Newest(version, body, hashlib.sha256(body).hexdigest())


def check_there(reader: Reader) -> None:
    """Raise if the whole store is missing: then nobody knows whether anything is published."""
    if not reader.there():
        raise StoreError(f"{reader.root} is missing; check the path, and that it is mounted")


@dataclass(slots=True, eq=False)
class _Watched:
    """What is known of a stream while somebody waits for it."""

    waiting: int = 0
    found: Newest | Exception | None = None
    changed: asyncio.Event = field(default_factory=asyncio.Event)
    looking: asyncio.Task[None] | None = None

    def set(self, found: Newest | Exception | None) -> None:
        self.found = found
        self.changed, before = asyncio.Event(), self.changed
        before.set()

    def is_news(self, known: Collection[str]) -> bool:
        if isinstance(self.found, Newest):
            return self.found.tag not in known
        return self.found is not None and not isinstance(self.found, NoPlan)


class Watch:
    """Waits for new versions in one event loop.

    Parameters
    ----------
    reader
        What is looked at, in a worker thread; it needs no keys.
    interval_s
        Seconds between two looks; by default 0.2 at a folder and 1 at an object store.
    """

    def __init__(self, reader: Reader, interval_s: float | None = None) -> None:
        self.reader = reader
        self.interval_s = interval_s or (LOCAL_S if files.is_local(reader.root) else REMOTE_S)
        self._streams: dict[str, _Watched] = {}
        self._closed = False

    async def newest(self, stream: str, known: Collection[str], wait_s: float) -> Newest:
        """Return the newest version once its tag is not a known one, or after ``wait_s``.

        What goes wrong is news as well; that nothing is published is not.
        """
        if wait_s <= 0 or self._closed:
            return await asyncio.to_thread(newest, self.reader, stream)
        watched = self._streams.setdefault(stream, _Watched())
        if watched.looking is None:
            watched.looking = asyncio.create_task(self._look(stream, watched))
        watched.waiting += 1
        try:
            async with asyncio.timeout(wait_s):
                while not watched.is_news(known) and not self._closed:
                    await watched.changed.wait()
        except TimeoutError:
            pass
        finally:
            watched.waiting -= 1
            if not watched.waiting:
                watched.looking.cancel()
                del self._streams[stream]
        if isinstance(watched.found, Newest):
            return watched.found
        if watched.found is not None:
            raise watched.found.with_traceback(None)
        raise StoreError(f"{self.reader.root} does not answer in time")

    def close(self) -> None:
        """Answer all who wait, now: there will be no news from here."""
        self._closed = True
        for watched in self._streams.values():
            watched.set(watched.found)

    async def _look(self, stream: str, watched: _Watched) -> None:
        while True:
            found: Newest | Exception
            try:
                found = await asyncio.to_thread(newest, self.reader, stream)
            except Exception as error:
                found = error
            if isinstance(found, Exception) or found != watched.found:
                watched.set(found)
            await asyncio.sleep(self.interval_s)

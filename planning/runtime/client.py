"""The plan client: asks the store for newer versions, verifies and tries them, keeps the last good.

All I/O and all preparation happen in :meth:`PlanClient.poll`, called by the client's own thread or
by you. A version is taken only when every attached shedder is ready for it; a refused version
changes nothing, and its reason is kept.
"""

from __future__ import annotations

import logging
import re
import socket
import threading
import time
import weakref
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any, Literal, Protocol

from planning.artifacts import Acknowledgement, Published, Store, TrustedKeys, Unverified
from planning.artifacts.acknowledgement import check_node
from planning.artifacts.files import Location
from planning.artifacts.manifest import Fallback, from_time, to_time
from planning.errors import InvalidInput, NoPlan, StoreError
from planning.runtime.canary import Canary
from planning.runtime.compiling import at_hand

State = Literal["waiting", "in force", "expired"]
NEVER = float("inf")
MOST_REASONS = 10_000  # refusals that are remembered with their reasons
RETRIED = 10  # versions that could not be loaded and are tried again at every poll
log = logging.getLogger(__name__)


class Consumer(Protocol):
    """What a client hands plans to."""

    def prepare(self, published: Published) -> Any:
        """Get ready for a version, off the data path; raise if it cannot be used."""

    def hand_over(self, published: Published, prepared: Any) -> None:
        """Put what was prepared into force; called once all consumers are ready."""


class PlanClient:
    """Follows the published plans of one stream.

    Parameters
    ----------
    store
        The store, or its folder or URL.
    stream
        Name of the stream.
    trusted
        Keys whose signatures are accepted; required unless ``store`` is a :class:`Store`.
    node
        This node's name, for acknowledgements and canaries; the host name by default.
    poll_interval_s
        Seconds between two looks at the store; doubled after each failure, up to
        ``max_backoff_s``.
    clock
        Unix time in seconds.
    canary
        Which nodes take a new version first; without one, all at once.

    Examples
    --------
    >>> from planning.examples import demo_store
    >>> store, signer = demo_store("sifter")
    >>> client = PlanClient(store, "ticks", node="edge-7")
    >>> client.state, client.poll(), client.state, client.version
    ('waiting', True, 'in force', 1)
    >>> client.poll()  # nothing newer; `with client:` would go on looking in the background
    False
    """

    def __init__(
        self,
        store: Store | Location,
        stream: str,
        *,
        trusted: TrustedKeys | Unverified | None = None,
        node: str | None = None,
        poll_interval_s: float = 5.0,
        max_backoff_s: float = 60.0,
        clock: Callable[[], float] = time.time,
        canary: Canary | None = None,
    ) -> None:
        if not poll_interval_s > 0:
            raise InvalidInput(f"poll_interval_s must be positive, got {poll_interval_s}")
        self.store = store if isinstance(store, Store) else Store(store, trusted)
        self.stream = stream
        self.node = check_node(node or re.sub(r"[^A-Za-z0-9._-]", "_", socket.gethostname()))
        self.poll_interval_s = poll_interval_s
        self.max_backoff_s = max(max_backoff_s, poll_interval_s)
        self.clock = clock
        self.canary = canary
        self.current: Published | None = None
        self.not_after_s = NEVER
        self.last_error: Exception | None = None
        self.polls = 0
        self.errors = 0
        self.failures = 0
        self.refusals = 0
        self.refused: dict[int, str] = {}
        self._unusable: set[int] = set()
        self._consumers: weakref.WeakSet[Any] = weakref.WeakSet()
        self._swapped: tuple[int, Mapping[str, int | float]] | None = None
        self._polling = threading.Lock()
        self._wake = threading.Event()
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    @property
    def version(self) -> int:
        """Version of the last good plan; 0 before the first."""
        return self.current.manifest.version if self.current else 0

    @property
    def expired(self) -> bool:
        """Whether the plan's validity has ended."""
        return self.clock() >= self.not_after_s

    @property
    def state(self) -> State:
        """``waiting`` for a first plan, a plan ``in force``, or an ``expired`` one."""
        if self.current is None:
            return "waiting"
        return "expired" if self.expired else "in force"

    @property
    def fallback(self) -> Fallback:
        """What the plan in force says to do once it has expired."""
        return self.current.manifest.validity.fallback if self.current else "pass"

    @property
    def delay_s(self) -> float:
        """Seconds until the next look at the store."""
        return float(min(self.poll_interval_s * 2.0 ** min(self.failures, 30), self.max_backoff_s))

    def poll(self) -> bool:
        """Look at the store once; return True if a newer, verified plan was taken.

        Never raises: whatever goes wrong is kept in ``last_error`` and counted, and the last good
        plan stays.
        """
        with self._polling:
            self.polls += 1
            problem: Exception | None = None
            taken = False
            try:
                self._acknowledge()
                taken, problem = self._take_newer()
            except NoPlan as error:
                # Before the first publication this is not an error; afterwards it is.
                problem = error if self.current else None
                self.last_error = error
            except Exception as error:
                problem = error
            self._record(problem)
            return taken

    def attach(self, consumer: Consumer) -> None:
        """Hand every plan to ``consumer`` from now on, the one in force at once.

        If it cannot use that one, the version is refused, and the newest that it can use is taken.
        """
        with self._polling:
            self._consumers.add(consumer)
            published = self.current
            if published is None:
                return
            try:
                consumer.hand_over(published, consumer.prepare(published))
                return
            except Exception as error:
                self._unusable.add(published.manifest.version)
                self._refuse(published.manifest.version, error)
                self.current, self.not_after_s = None, NEVER
        self.poll()

    def report_swap(self, version: int, counters: Mapping[str, int | float]) -> None:
        """Note that a shedder has ``version`` in force; the next poll acknowledges it."""
        self._swapped = (version, counters)
        self._wake.set()

    def wake(self) -> None:
        """Let the thread look at the store now, for example when notified of a new version."""
        self._wake.set()

    def start(self) -> PlanClient:
        """Poll in a background thread until :meth:`stop`."""
        if self._thread is None:
            self._stop.clear()
            name = f"headgate-{self.stream}"
            self._thread = threading.Thread(target=self._run, name=name, daemon=True)
            self._thread.start()
        return self

    def stop(self) -> None:
        """End the background thread; the plan in force stays."""
        thread, self._thread = self._thread, None
        if thread is not None:
            self._stop.set()
            self._wake.set()
            thread.join()

    def __enter__(self) -> PlanClient:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _run(self) -> None:
        while not self._stop.is_set():
            self.poll()
            self._wake.wait(self.delay_s)
            self._wake.clear()

    def _take_newer(self) -> tuple[bool, Exception | None]:
        """Take the newest version that is sound; note why newer ones are not."""
        newest = self.store.newest(self.stream)
        if newest == self.version:
            return False, None
        if newest < self.version:
            raise StoreError(
                f"{self.store.root} has gone back from version {self.version} of {self.stream} to "
                f"{newest}; this node keeps version {self.version}; restore the store"
            )
        problem: Exception | None = None
        waiting: list[int] = []
        for version in self._candidates():
            try:
                if self._must_wait(version):
                    waiting.append(version)
                    continue
                self._load(version)
                return True, problem
            except NoPlan:  # removed meanwhile
                continue
            except Exception as error:
                problem = problem or error
                self._refuse(version, error)
        if self.current is None and waiting:
            # With no plan at all, the one that has waited longest is better than none.
            self._load(waiting[-1])
            return True, problem
        return False, problem

    def _load(self, version: int) -> None:
        if not self._consumers:
            self._take(self.store.load(self.stream, version))
            return
        with at_hand(self.store.manifest(self.stream, version).family):
            self._take(self.store.load(self.stream, version))

    def _candidates(self) -> list[int]:
        """Return the newer versions that may be sound, newest first."""
        newer = [v for v in self.store.versions(self.stream) if v > self.version]
        newer = [v for v in reversed(newer) if v not in self._unusable]
        retried = [v for v in newer if v in self.refused][:RETRIED]
        return [v for v in newer if v not in self.refused or v in retried]

    def _must_wait(self, version: int) -> bool:
        canary = self.canary
        if canary is None or canary.includes(self.node, self.stream):
            return False
        manifest = self.store.manifest(self.stream, version)
        return not canary.admits(manifest, self.node, self.clock())

    def _take(self, published: Published) -> None:
        """Let every consumer prepare, and only then put the version into force."""
        try:
            ready = [(consumer, consumer.prepare(published)) for consumer in self._consumers]
        except Exception:
            self._unusable.add(published.manifest.version)
            raise
        not_after = published.manifest.validity.not_after
        moment = NEVER if not_after is None else from_time("not_after", not_after).timestamp()
        self.current, self.not_after_s = published, moment
        for consumer, prepared in ready:
            consumer.hand_over(published, prepared)

    def _refuse(self, version: int, error: Exception) -> None:
        reason = str(error) or repr(error)
        if self.refused.get(version) == reason:
            return
        self.refusals += 1
        self.refused[version] = reason
        while len(self.refused) > MOST_REASONS:
            del self.refused[min(self.refused)]
        log.warning("stream %s: version %s is refused: %s", self.stream, version, reason)

    def _acknowledge(self) -> None:
        swapped = self._swapped
        if swapped is None:
            return
        try:
            word = Acknowledgement(
                node=self.node,
                version=swapped[0],
                at=to_time(datetime.fromtimestamp(self.clock(), UTC)),
                counters=dict(swapped[1]),
            )
            self.store.acknowledge(self.stream, word)
        except Exception as error:
            # A node may lack write permission; it must still follow new plans.
            self._record(error)
        if self._swapped is swapped:
            self._swapped = None

    def _record(self, problem: Exception | None) -> None:
        if problem is None:
            self.failures = 0
            return
        if self.failures == 0:
            log.warning("stream %s on node %s: %s", self.stream, self.node, problem)
        self.last_error = problem
        self.errors += 1
        self.failures += 1

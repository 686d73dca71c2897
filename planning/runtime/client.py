"""The plan client: asks for newer versions, verifies and tries them, keeps the last good.

Looking and preparing happen in :meth:`PlanClient.poll`, called by the client's own thread or by
you; a second thread reports. A version is taken only when every attached shedder is ready for it; a
refused version changes nothing, and its reason is kept. The last good plan is also on the node's
disk, so that a node that starts without its store starts with a plan.
"""

from __future__ import annotations

import logging
import re
import socket
import threading
import time
import weakref
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any, Literal

from planning.artifacts import Published, Reader, Status, TrustedKeys, Unverified
from planning.artifacts.files import Location
from planning.artifacts.manifest import Fallback, from_time
from planning.artifacts.remote import Remote, Token, is_url
from planning.artifacts.status import State, check_node, plain
from planning.errors import InvalidInput, NoPlan, SignatureError, StoreError
from planning.runtime.canary import Canary
from planning.runtime.compiling import at_hand
from planning.runtime.memory import Memory, default_folder
from planning.runtime.reporting import Consumer, Reporter

NEVER = float("inf")
MOST_REASONS = 10_000  # refusals that are remembered with their reasons
RETRIED = 10  # versions that could not be loaded and are tried again at every poll
log = logging.getLogger(__name__)


class PlanClient:
    """Follows the published plans of one stream.

    Parameters
    ----------
    store
        The store, its folder or fsspec URL, or the ``https://`` address of a plan API or of
        ``headgate serve``.
    stream
        Name of the stream.
    trusted
        Keys whose signatures are accepted; required unless ``store`` is a reader or store. Keys
        that are removed from their folder stop being trusted while the client runs.
    token
        What an ``https://`` address asks for: a text, or a function that returns a fresh one.
    node
        This node's name, for its status and for canaries; the host name by default.
    poll_interval_s
        Seconds between two looks at the store; doubled after each failure, up to
        ``max_backoff_s``. A plan API is asked to answer as soon as there is something new.
    heartbeat_s
        Seconds between two reports of the status; what changes is reported at once.
    memory
        The node's own folder for the last good plan; False for none. By default
        ``$HEADGATE_MEMORY`` or ``~/.local/state/headgate``.
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
        store: Reader | Location,
        stream: str,
        *,
        trusted: TrustedKeys | Unverified | None = None,
        token: Token | None = None,
        node: str | None = None,
        poll_interval_s: float = 5.0,
        max_backoff_s: float = 60.0,
        heartbeat_s: float = 30.0,
        clock: Callable[[], float] = time.time,
        canary: Canary | None = None,
        memory: Location | Literal[False] | None = None,
    ) -> None:
        for field, value in (("poll_interval_s", poll_interval_s), ("heartbeat_s", heartbeat_s)):
            if not value > 0:
                raise InvalidInput(f"{field} must be positive, got {value}")
        self.store = _reader(store, trusted, token, clock)
        self.stream = stream
        self.node = check_node(node or re.sub(r"[^A-Za-z0-9._-]", "_", socket.gethostname()))
        self.poll_interval_s = poll_interval_s
        self.max_backoff_s = max(max_backoff_s, poll_interval_s)
        self.heartbeat_s = heartbeat_s
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
        self.problem = ""
        self.problem_since_s: float | None = None
        self.reached_at_s: float | None = None
        self.taken_at_s: float | None = None
        self.started_at_s = clock()
        self._reporter = Reporter(self)
        self._polling = threading.Lock()
        self._wake = threading.Event()
        self._stop: threading.Event | None = None
        self._threads: list[threading.Thread] = []
        self.memory: Memory | None = None
        self.seen = 0
        self._recalled = self._stopped = False
        # A store in this process's memory ends with it.
        if memory is None and not str(self.store.root).startswith("memory:"):
            memory = default_folder()
        if memory:
            self._remember(memory)

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
        """``waiting`` for a first plan, a plan ``in force``, an ``expired`` one, or ``stopped``."""
        if self._stopped:
            return "stopped"
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
        """Look for newer versions once; return True if a verified plan was taken.

        A plan that was recalled from disk counts as taken once the store has confirmed it.
        Never raises: whatever goes wrong is kept in ``last_error`` and counted, and the last good
        plan stays.
        """
        with self._polling:
            self.polls += 1
            self._stopped = False
            problem: Exception | None = None
            taken = False
            try:
                self._renew_trust()
                taken, problem = self._take_newer()
                self._reached()
            except NoPlan as error:
                # Before the first publication this is not an error; afterwards it is.
                problem = error if self.seen else None
                self.last_error = error
                self._reached()
            except Exception as error:
                problem = error
            self._record(problem)
        if self._threads:
            self._reporter.news.set()
        else:
            self.report()
        return taken

    @property
    def consumers(self) -> tuple[Consumer, ...]:
        """Those that plans are handed to."""
        return tuple(self._consumers)

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
                self._without_plan()
        self.poll()

    def status(self, *consumers: Consumer) -> Status:
        """Return what this node has to say, of all its shedders or of some."""
        return self._reporter.status(*consumers)

    def report(self) -> None:
        """Tell the store how this node is, if that has changed or a heartbeat is due."""
        self._reporter.report()

    def report_swap(self) -> None:
        """Note that a shedder has taken a version over; it is reported by another thread."""
        self._reporter.news.set()

    def wake(self) -> None:
        """Let the thread look at the store now, for example when notified of a new version."""
        self._wake.set()

    def start(self) -> PlanClient:
        """Look and report in background threads until :meth:`stop`."""
        if not self._threads:
            self._stop = stop = threading.Event()
            self._threads = [
                threading.Thread(
                    target=work, args=(stop,), name=f"headgate-{self.stream}-{name}", daemon=True
                )
                for name, work in (("plans", self._follow), ("status", self._reporter.tell))
            ]
            for thread in self._threads:
                thread.start()
        return self

    def stop(self) -> None:
        """End the background threads and take leave; the plan in force stays."""
        threads, self._threads = self._threads, []
        if self._stop is not None:
            self._stop.set()
            self._wake.set()
            self._reporter.news.set()
        for thread in threads:
            thread.join(self.store.patience_s)
        self._stopped = True
        if not self.failures:
            self.report()

    def __enter__(self) -> PlanClient:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _follow(self, stop: threading.Event) -> None:
        while not stop.is_set():
            self.poll()
            seconds = 0.0 if self.failures else self.store.wait(self.stream, self._wake)
            if not stop.is_set():
                self._wake.wait(max(0.0, self.delay_s - seconds))
            self._wake.clear()

    def _remember(self, folder: Location) -> None:
        """Begin with what this node knew when it stopped."""
        try:
            self.memory = memory = Memory(folder, str(self.store.root), self.node, self.stream)
            self.seen, self.reached_at_s = memory.seen, memory.reached_at_s
            recalled = memory.recall(self.store.trusted)
        except Exception as error:
            self._record(error)
            return
        if recalled is not None:
            self._recalled = True
            self._in_force(recalled)

    def _renew_trust(self) -> None:
        """Follow the folder of trusted keys; a plan whose key has gone is not used any longer."""
        trusted = self.store.trusted.renewed()
        if trusted is self.store.trusted:
            return
        self.store.trusted = trusted
        current = self.current
        if current is None:
            return
        try:
            trusted.verify(current.manifest, f"version {self.version}")
        except SignatureError as error:
            self._refuse(self.version, error)
            self._without_plan()
            for consumer in self._consumers:
                consumer.withdraw()

    def _reached(self) -> None:
        self.reached_at_s = self.clock()
        if self.memory is not None:
            self.memory.reached(self.reached_at_s)

    def _take_newer(self) -> tuple[bool, Exception | None]:
        """Take the newest version that is sound; note why newer ones are not."""
        newest = self._newest()
        if newest == self.version:
            confirmed, self._recalled = self._recalled, False
            return confirmed, None
        if newest < self.seen:
            remedy = "restore the store"
            if self.memory is not None:
                remedy += f", or remove {self.memory.reader.root} if it was made anew on purpose"
            raise StoreError(
                f"{self.store.root} has gone back from version {self.seen} of {self.stream} to "
                f"{newest}; this node keeps version {self.version}; {remedy}"
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

    def _newest(self) -> int:
        try:
            return self.store.newest(self.stream)
        except NoPlan:
            if self.store.there():
                raise
            raise StoreError(
                f"{self.store.root} is missing; check the path, and that it is mounted; this node "
                f"keeps version {self.version}"
            ) from None

    def _load(self, version: int) -> None:
        manifest = self.store.manifest(self.stream, version)
        self._see(version)
        with at_hand(manifest.family) if self._consumers else nullcontext():
            self._take(self.store.published(manifest))

    def _see(self, version: int) -> None:
        self.seen = max(self.seen, version)
        if self.memory is not None:
            self.memory.see(version)

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
        self._in_force(published)
        self.refused.pop(self.version, None)
        for consumer, prepared in ready:
            consumer.hand_over(published, prepared)
        if self.memory is not None:
            self.memory.keep(published)

    def _in_force(self, published: Published) -> None:
        not_after = published.manifest.validity.not_after
        moment = NEVER if not_after is None else from_time("not_after", not_after).timestamp()
        self.current, self.not_after_s, self.taken_at_s = published, moment, self.clock()

    def _without_plan(self) -> None:
        self.current, self.not_after_s, self.taken_at_s = None, NEVER, None

    def _refuse(self, version: int, error: Exception) -> None:
        reason = plain(error)
        if self.refused.get(version) == reason:
            return
        self.refusals += 1
        self.refused[version] = reason
        while len(self.refused) > MOST_REASONS:
            del self.refused[min(self.refused)]
        log.warning("stream %s: version %s is refused: %s", self.stream, version, reason)

    def _record(self, problem: Exception | None) -> None:
        if problem is None:
            self.failures, self.problem, self.problem_since_s = 0, "", None
            return
        if self.failures == 0:
            log.warning("stream %s on node %s: %s", self.stream, self.node, problem)
            self.problem_since_s = self.clock()
        self.last_error, self.problem = problem, plain(problem)
        self.errors += 1
        self.failures += 1


def _reader(
    store: Reader | Location,
    trusted: TrustedKeys | Unverified | None,
    token: Token | None,
    clock: Callable[[], float],
) -> Reader:
    if isinstance(store, Reader):
        return store
    if is_url(store):
        return Remote(str(store), trusted, token=token, clock=clock)
    return Reader(store, trusted)

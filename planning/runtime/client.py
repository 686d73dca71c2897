"""The plan client: asks the store for newer versions, verifies them, keeps the last good one.

All I/O happens in :meth:`PlanClient.poll`, called by the client's own thread or by you; the data
path only reads :attr:`PlanClient.current`.
"""

from __future__ import annotations

import logging
import re
import socket
import threading
import time
from collections.abc import Callable, Mapping
from typing import Literal

from planning.artifacts import Published, Store, TrustedKeys, Unverified
from planning.artifacts.acknowledgement import check_node
from planning.artifacts.files import Location
from planning.artifacts.manifest import Fallback, from_time
from planning.errors import ArtifactError, InvalidInput, NoPlan, StoreError
from planning.runtime.acknowledge import acknowledge
from planning.runtime.canary import Canary

State = Literal["waiting", "in force", "expired"]
NEVER = float("inf")
log = logging.getLogger(__name__)


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
        newest = self.store.newest(self.stream)
        if newest == self.version:
            return False, None
        if newest < self.version:
            raise StoreError(
                f"{self.store.root} has gone back from version {self.version} of {self.stream} to "
                f"{newest}; this node keeps version {self.version}; restore the store"
            )
        if self.canary is not None and not self.canary.includes(self.node, self.stream):
            return self._take_admitted(self.canary)
        newer = self.store.last_good(self.stream, after=self.version)
        problem = ArtifactError(newer.skipped[0].problem) if newer.skipped else None
        if newer.published is not None:
            self._take(newer.published)
        return newer.published is not None, problem

    def _take_admitted(self, canary: Canary) -> tuple[bool, Exception | None]:
        """Take the newest version that this node need not wait for; with no plan, the oldest."""
        problem: Exception | None = None
        waiting: list[int] = []
        for version in reversed([v for v in self.store.versions(self.stream) if v > self.version]):
            try:
                manifest = self.store.manifest(self.stream, version)
                if canary.admits(manifest, self.node, self.clock()):
                    self._take(self.store.load(self.stream, version))
                    return True, problem
                waiting.append(version)
            except (ArtifactError, NoPlan) as error:
                problem = problem or error
        if self.current is None and waiting:
            self._take(self.store.load(self.stream, waiting[-1]))
            return True, problem
        return False, problem

    def _take(self, published: Published) -> None:
        not_after = published.manifest.validity.not_after
        moment = NEVER if not_after is None else from_time("not_after", not_after).timestamp()
        self.current, self.not_after_s = published, moment

    def _acknowledge(self) -> None:
        swapped = self._swapped
        if swapped is None:
            return
        try:
            acknowledge(
                self.store,
                self.stream,
                node=self.node,
                version=swapped[0],
                at_s=self.clock(),
                counters=swapped[1],
            )
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

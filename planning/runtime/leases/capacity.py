"""A member of the fleet: its share, its bucket of tokens, and what it remembers."""

from __future__ import annotations

import fcntl
import math
import os
import random
import secrets
import threading
import time
import weakref
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

import msgspec

from planning.artifacts import files
from planning.errors import InvalidInput, PlanningError, StoreError
from planning.runtime.feed_forward import Bucket
from planning.runtime.leases.script import WHOLE, connect
from planning.runtime.throttle import positive

HEAD_ROOM = 1.1  # of a share above the demand
IDLE = 0.05  # of an even share, for members without demand
LOWER, RAISE = 0.95, 1.01  # smaller changes are not worth a call
SILENT = 5.0  # renewals that are missed until a member counts as silent
MARGIN = 0.9  # of the time after which a member is forgotten: then it stops
PATIENCE = 8  # renewals between attempts, at most, while Redis is away
# Where there is such a clock, it goes on while the machine sleeps.
ALWAYS = partial(time.clock_gettime, getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))
REFUSED = {
    "missing": "Redis has no capacity {name}, or an old copy; create it with "
    "LeasedCapacity.create, or wait for a member that remembers it",
    "full": "{name} has too small a slack for one more member",
    "replaced": "another process runs as {id}: is there a copy of its file?",
    "forgotten": "{id} was forgotten; it joins again as a new member",
}


def fair_share(own: float, wishes: Sequence[float], room: float) -> float:
    """Return what a wish gets of the room, max-min fair; what nobody wishes is split evenly.

    >>> [fair_share(wish, [1, 4, 9], room=9) for wish in (1, 4, 9)]
    [1, 4, 4.0]
    >>> [fair_share(wish, [1, 4, 9], room=20) for wish in (1, 4, 9)]
    [3.0, 6.0, 11.0]
    """
    left, count = room, len(wishes)
    for wish in sorted(wishes):
        if wish * count >= left:
            return min(own, left / count)
        left, count = left - wish, count - 1
    return own + left / len(wishes)


class Memory(msgspec.Struct):
    """What a member's file holds."""

    name: str
    id: str
    incarnation: int = 0
    share: int = 0
    epoch: str = ""
    seq: int = 0
    capacity: float = 0.0
    slack: float = 0.0
    promise: float | None = None  # after how many seconds it may be forgotten
    roster: dict[str, float | None] = {}  # the others, and their promises


class LeasedCapacity:
    """A process's share of a capacity that a fleet shares; several threads may use it.

    What goes wrong is in ``status()``.

    Parameters
    ----------
    url
        The Redis server, ``rediss://`` for TLS, with user and password if needed. The user needs
        EVALSHA, SCRIPT LOAD, HGETALL, HSET, HDEL, TIME and INFO.
    name
        The capacity, which :meth:`create` has created.
    member
        This member's name.
    path
        A local file of this member alone that outlives the process: its memory. It must not be
        copied to another host.
    renew_s
        Seconds between renewals.
    forget_after_s
        After so many seconds of silence the others may use this member's share; the member itself
        stops a tenth earlier. By default it never stops, and its share stays reserved.
    clock
        Seconds that never decrease, and go on while the machine sleeps.

    Examples
    --------
    Once: ``LeasedCapacity.create("redis://hub", "ticks", capacity_per_s=5000)``. On every host::

        with LeasedCapacity("redis://hub", "ticks", member="edge-7", path="lease.json") as lease:
            shedder = RunningShedder(client, LeasedThrottle(lease))

    Nothing passes until Redis has assigned a share:

    >>> lease = LeasedCapacity("redis://hub", "ticks", member="edge-7", path="lease.json")
    >>> lease.state, lease.share, lease.reserve(demand=10, most=10)
    ('waiting', 0.0, (0.0, 0))
    """

    def __init__(
        self,
        url: str,
        name: str,
        *,
        member: str,
        path: str | os.PathLike[str],
        renew_s: float = 1.0,
        forget_after_s: float | None = None,
        clock: Callable[[], float] = ALWAYS,
    ) -> None:
        if forget_after_s is not None and not 10 * renew_s <= forget_after_s < math.inf:
            raise InvalidInput(
                f"forget_after_s must be at least 10 x renew_s, got {forget_after_s}"
            )
        self.name = name
        self.member = member
        self.path = files.folder(path)
        self.renew_s = positive("renew_s", renew_s)
        self.forget_after_s = forget_after_s
        self.bucket = Bucket(0.0, 0.0)
        self.state = "waiting"  # then held, lost, replaced or closed
        self.since_s = time.time()
        self.error = ""
        self._call = connect(url, name)
        self._clock = clock
        self._memory = Memory(name, "")
        self._saved: Memory | None = None
        self._members: dict[str, dict[str, Any]] = {}
        self._unchanged: dict[str, tuple[list[int], float]] = {}  # others' last calls, and since
        self._n = self._failures = self._under_way = 0
        self._arrived = self._counted = self._demand = 0.0
        self._counted_s, self._until_s = clock(), math.inf
        self._lock = threading.Lock()  # of the bucket, held for microseconds
        self._renewing = threading.Lock()
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self._file = -1

    @staticmethod
    def create(url: str, name: str, *, capacity_per_s: float, slack: float | None = None) -> None:
        """Create a capacity, once, while no member uses it; or change the capacity of a fleet.

        ``slack`` is what may pass at once beyond capacity x time: at least 2 per member; by default
        what passes in a second. A change reaches members at their next renewal; until it has
        reached all, the larger value holds.
        """
        capacity = positive("capacity_per_s", capacity_per_s)
        slack = max(2.0, capacity) if slack is None else positive("slack", slack)
        connect(url, name)({"create": True, "capacity": capacity, "slack": slack})

    @staticmethod
    def forget(url: str, name: str, member: str) -> list[str]:
        """Free the shares of a member, or of a name's members, that are silent; return which.

        Only for those that are gone for good: a member that still runs would go on with its share.
        """
        call = connect(url, name)
        gone = {
            id: [record["incarnation"], record["n"]]
            for id, record in call({}).get("members", {}).items()
            if member in (id, id.rpartition("/")[0]) and not record["live"]
        }
        return sorted(set(gone) - set(call({"forget": gone}).get("members", {})))

    @property
    def share(self) -> float:
        """The share of the capacity that is in use."""
        return self._memory.share / WHOLE

    def start(self) -> LeasedCapacity:
        """Go on with the share in the file, ask Redis once, and renew in the background."""
        self.open()
        self.renew()
        self._thread = threading.Thread(target=self._run, name="headgate-lease", daemon=True)
        self._thread.start()
        return self

    def open(self) -> None:
        """Lock and read the file."""
        try:
            self._file = os.open(f"{self.path}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            self._memory = self._read()
            self._save()
        except OSError as error:
            self._unlock()
            raise StoreError(
                f"{self.path} cannot be used as a lease's file ({error}); name a file of this "
                "process alone, in a writable local folder"
            ) from None
        except PlanningError:
            self._unlock()
            raise
        self._fill(self._memory.share)
        in_child = weakref.WeakMethod(self._in_child)
        os.register_at_fork(after_in_child=lambda: (method := in_child()) and method())

    def close(self) -> None:
        """Let nothing more pass and free the share; without Redis, it stays for a restart."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join()
        with self._renewing:
            if self._file >= 0 and self.state != "replaced":
                with suppress(Exception):
                    self._tell()
                    request = self._request(self._fill(0)) | {"leave": True}
                    if not self._memory.share:
                        self._part()
                    self._save()
                    self._call(request)
            self._until_s = -math.inf
            self._turn("closed")
            self._unlock()

    def __enter__(self) -> LeasedCapacity:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.close()

    def status(self) -> dict[str, Any]:
        """Return what this member may pass, how it stands with Redis, and who is silent."""
        memory = self._memory
        return {
            "name": self.name,
            "member": memory.id or self.member,
            "state": self.state,
            "since_s": self.since_s,
            "error": self.error,
            "share": self.share,
            "stopped": self._clock() >= self._until_s,
            "capacity_per_s": memory.capacity,
            "slack": memory.slack,
            "demand_per_s": self._demand,
            "members": len(memory.roster) + 1,
            # None: what it holds is not known, as Redis has lost it.
            "silent": {
                id: record["share"] / WHOLE if record["told"] else None
                for id, record in sorted(self._members.items())
                if not record["live"]
            },
        }

    # On the data path

    def reserve(self, demand: float, most: float) -> tuple[float, int]:
        """Return the tokens there are, and how many of them a batch has got, at most ``most``."""
        with self._lock:
            now_s = self._clock()
            self._arrived += demand
            tokens = self.bucket.at(now_s) - self._under_way if now_s < self._until_s else 0.0
            granted = max(0, int(min(most, tokens + 1e-9)))
            self._under_way += granted
        return tokens, granted

    def settle(self, granted: int, passed: float) -> None:
        """End a batch: pay for what passed, and free the rest."""
        with self._lock:
            self._under_way -= granted
            self.bucket.spend(passed)

    # On the lease's own thread

    def renew(self) -> bool:
        """Tell what is held, and take what is assigned; False, and ``error``, if that failed."""
        with self._renewing:
            try:
                self._measure()
                aim, share = self._tell(), self._memory.share
                if not LOWER * share <= aim <= RAISE * share:
                    self._tell(aim)
                self._save()
            except Exception as error:  # whatever it is, the share stays as it is
                self._failures += 1
                self.error = str(error) or type(error).__name__
                if self.state != "replaced":
                    self._turn("lost" if self._memory.epoch else "waiting")
                return False
            self._failures, self.error = 0, ""
            self._turn("held")
            return True

    def _run(self) -> None:
        while self.state != "replaced":
            pause_s = self.renew_s * min(2**self._failures, PATIENCE) * random.uniform(0.8, 1.0)
            if self._stop.wait(pause_s):
                return
            self.renew()

    def _measure(self) -> None:
        """Follow the demand: up at once, down over some renewals."""
        arrived, now_s = self._arrived, self._clock()
        if now_s > self._counted_s:
            rate = (arrived - self._counted) / (now_s - self._counted_s)
            self._demand = max(rate, 0.7 * self._demand + 0.3 * rate)
            self._counted, self._counted_s = arrived, now_s

    def _tell(self, want: int | None = None) -> int:
        """Tell what is held and wanted, by default what is recorded; return what to aim at."""
        sent_s = self._clock()
        if sent_s >= self._until_s:
            self._fill(0)
        elif want is not None and want < self._memory.share:
            want = self._fill(want)
        self._save()
        reply, memory = self._call(self._request(want)), self._memory
        if (kind := reply["kind"]) in REFUSED:
            if kind == "replaced":
                self._fill(0)
                self._turn(kind)
            elif kind == "forgotten":
                self._fill(0)
                self._part()
            raise StoreError(REFUSED[kind].format(name=self.name, id=memory.id))
        self._members = {id: rec for id, rec in reply["members"].items() if id != memory.id}
        memory.epoch, memory.seq = reply["epoch"], reply["seq"]
        memory.capacity, memory.slack = float(reply["capacity"]), float(reply["slack"])
        memory.roster = {id: rec.get("promise") for id, rec in self._members.items()}
        self._fill(reply["share"])
        if memory.promise is not None:
            self._until_s = sent_s + MARGIN * memory.promise
        before, now_s = self._unchanged, self._clock()
        self._unchanged = {}
        for id, rec in self._members.items():
            order = [rec["incarnation"], rec["n"]]
            same = id in before and before[id][0] == order
            self._unchanged[id] = before[id] if same else (order, now_s)
        return self._aim(reply["room"])

    def _request(self, want: int | None) -> dict[str, Any]:
        self._n += 1
        memory, now_s = self._memory, self._clock()
        request = msgspec.structs.asdict(memory) | {
            "n": self._n,
            "demand": self._demand,
            "late": round(1000 * SILENT * self.renew_s),
            "forget": {
                id: order
                for id, (order, since_s) in self._unchanged.items()
                if now_s - since_s >= (memory.roster.get(id) or math.inf)
            },
        }
        return request if want is None else request | {"want": want}

    def _aim(self, room: int) -> int:
        """Return the share that is fair among the members in touch."""
        memory = self._memory
        demands = [rec["demand"] for rec in self._members.values() if rec["live"]]
        # A bucket that never holds a whole unit would let nothing pass.
        least = max(IDLE / (len(demands) + 1), 1.0 / memory.slack)
        wishes = [
            WHOLE * min(1.0, max(least, HEAD_ROOM * demand / memory.capacity)) + 1.0
            for demand in (self._demand, *demands)
        ]
        return max(0, int(fair_share(wishes[0], wishes, room)))

    def _fill(self, share: int) -> int:
        """Go on with another share; return it: what is under way is kept until it has passed."""
        memory = self._memory
        with self._lock:
            if share < memory.share and self._under_way:
                needed = math.ceil(WHOLE * self._under_way / memory.slack)
                share = min(memory.share, max(share, needed))
            memory.share = share
            part = share / WHOLE
            self.bucket.change(self._clock(), part * memory.capacity, part * memory.slack)
        return share

    def _part(self) -> None:
        """Come back as another member: what this one knows will be out of date."""
        self._memory = msgspec.structs.replace(
            self._memory, id=self._new_id(), epoch="", seq=0, roster={}
        )

    def _new_id(self) -> str:
        return f"{self.member}/{secrets.token_hex(4)}"

    def _turn(self, state: str) -> None:
        if state != self.state:
            self.state, self.since_s = state, time.time()

    def _read(self) -> Memory:
        try:
            memory = msgspec.json.decode(files.read(self.path), type=Memory)
        except FileNotFoundError:
            memory = Memory(self.name, self._new_id())
        except msgspec.DecodeError as error:
            raise InvalidInput(f"{self.path} must be a lease's file: {error}") from None
        if (memory.name, memory.id.rpartition("/")[0]) != (self.name, self.member):
            raise InvalidInput(
                f"{self.path} must belong to {self.member} of {self.name}, got the file of "
                f"{memory.id} of {memory.name}; give every member a file of its own"
            )
        if memory.promise is not None:
            memory.share = 0  # how long the process was away is not known: Redis decides
        memory.incarnation += 1
        memory.promise = self.forget_after_s
        return memory

    def _save(self) -> None:
        """Write the file if anything but the sequence number has changed."""
        memory = msgspec.structs.replace(self._memory, seq=0)
        if memory != self._saved:
            files.replace(self.path, msgspec.json.encode(self._memory))
            self._saved = memory

    def _unlock(self) -> None:
        if self._file >= 0:
            os.close(self._file)
            self._file = -1

    def _in_child(self) -> None:
        """Let nothing pass in a forked copy: its parent has the share."""
        self._lock, self._renewing = threading.Lock(), threading.Lock()
        self._until_s, self.state, self._thread = -math.inf, "closed", None
        self._unlock()

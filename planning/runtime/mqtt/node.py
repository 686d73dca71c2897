"""A source on MQTT: sheds with the plan in force, and publishes what is left as reports."""

from __future__ import annotations

import math
import secrets
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Literal, NamedTuple

import numpy as np
from paho.mqtt.client import MQTT_ERR_SUCCESS, Client, MQTTMessage
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties

from planning.arrays import BoolArray
from planning.artifacts import Status, TrustedKeys, Unverified
from planning.artifacts import status as statuses
from planning.artifacts.files import Location
from planning.errors import InvalidInput
from planning.runtime.client import PlanClient
from planning.runtime.mqtt import wire
from planning.runtime.mqtt.link import LEAVE_S, Link
from planning.runtime.mqtt.plans import PlanMessages
from planning.runtime.mqtt.twin import Entity, Twin
from planning.runtime.shedding import RunningShedder
from planning.runtime.throttle import Throttle

FAMILIES = ("attributes", "lira")
POSITION = ("x", "y", "vx", "vy")
CENTIMETRES, MILLIMETRES = 2, 3  # decimals of positions, and of velocities
TIME = "hg_time"  # with the entity, what decides where whole tuples are thinned
HEARTBEAT_S = 86_400.0  # a death is noticed by the broker, so the status may be rare
Columns = Mapping[str, Sequence[Any]]


class Report(NamedTuple):
    """What is sent of one item: values by place of their column."""

    entity: Entity
    time_s: float
    values: dict[int, Any]


class Node(Link):
    """A device, with its connection, its plan, and what its receivers hold.

    ``offer`` decides on a batch and publishes what the plan lets pass. While there is no connection
    it goes on deciding; the birth with which every connection begins brings receivers up to date.

    Parameters
    ----------
    address, stream, node
        The broker, the stream, and this device's name, which must be its own.
    trusted
        Keys whose signatures are accepted.
    family
        ``attributes`` or ``lira``.
    entity
        Columns that name the entity of a tuple; for ``lira`` it is ``object_id``.
    load, throttle
        As for a :class:`~planning.runtime.RunningShedder`.
    options
        Further arguments of the family's shedder. Nodes follow the plan's throttlers and dead
        bands as they are: correcting them on each node would take from those who have more to
        report. What ``attributes`` may send in a window stays a hard limit.
    memory
        The device's folder for the last good plan; False for none.
    clock
        Unix time in seconds.
    connection
        Further arguments of the connection (:class:`~planning.runtime.mqtt.link.Link`).
    """

    def __init__(
        self,
        address: str,
        stream: str,
        node: str,
        *,
        trusted: TrustedKeys | Unverified,
        family: str,
        entity: Sequence[str] = (),
        load: float = 1.0,
        throttle: Throttle | None = None,
        options: Mapping[str, Any] | None = None,
        memory: Location | Literal[False] | None = None,
        clock: Callable[[], float] = time.time,
        **connection: Any,
    ) -> None:
        if family not in FAMILIES:
            raise InvalidInput(f"family must be attributes or lira, got {family}")
        super().__init__(address, f"headgate-{stream}-{node}", **connection)
        self.stream, self.node, self.family = stream, node, family
        self.clock = clock
        self.plans = PlanMessages(address, trusted)
        self.client = PlanClient(
            self.plans, stream, node=node, memory=memory, heartbeat_s=HEARTBEAT_S, clock=clock
        )
        self.plans.seen[stream] = self.client.seen
        self._entity = tuple(entity) if family == "attributes" else ("object_id",)
        positions = family == "lira"
        self.shedder: Any = RunningShedder(
            self.client, throttle, load, family=family,
            options={**({"correct": False} if positions else {}), **(options or {})},
            key=() if positions else (*self._entity, TIME),
        )  # fmt: skip
        self.reports = self.messages = self.births = self.statuses = 0
        self.bytes = 0  # of births and reports, as packets
        self._session = secrets.randbelow(wire.SESSIONS)
        self._seq = self._sent_here = 0
        self._alias: Properties | None = None
        self._tracks = Tracks(float((options or {}).get("highest_speed", 100.0)))
        self.twin = Twin(POSITION, whole=True) if family == "lira" else Twin(())

    @property
    def session(self) -> int:
        """The number of the connection: a receiver tells by it which death belongs to which."""
        return self._session

    @property
    def seq(self) -> int:
        """The number of the last message of reports."""
        return self._seq

    def start(self) -> Node:
        """Follow plans, connect, and stay connected until :meth:`stop`."""
        self.client.start()
        return super().start()

    def stop(self) -> None:
        """Take leave: receivers are told that this node has ended."""
        self.client.stop()
        super().stop()

    def offer(self, batch: Columns, times_s: Sequence[float] | float | None = None) -> int:
        """Decide on a batch and publish what is kept, in one message; return how many reports.

        Parameters
        ----------
        batch
            Columns.
        times_s
            When the items were measured, in seconds; now, by default. Positions have their own.
        """
        with self._lock:
            reports = list(self._reports(batch, times_s))
            if not reports:
                return 0
            self.reports += len(reports)
            self._seq = (self._seq + 1) % wire.SEQUENCE
            body = b"".join([self.twin.report(*report) for report in reports])
            self._send(wire.DATA.pack(self._session & 0xFF, self._seq) + body)
            return len(reports)

    def _reports(self, batch: Columns, times_s: Any) -> Iterator[Report]:
        if self.family == "lira":
            yield from self._tracks.reports(batch, self.shedder.offer(batch))
            return
        rows = len(next(iter(batch.values()), ()))
        now = self.clock() if times_s is None else times_s
        times = np.broadcast_to(np.asarray(now, dtype=np.float64), rows)
        keep = self.shedder.offer({**batch, TIME: times})
        shedder = self.shedder.shedder
        parts = tuple(batch) if shedder is None else shedder.parts
        if keep.ndim == 1:
            keep = np.repeat(keep[:, None], len(parts), axis=1)
        columns = tuple(name for name in parts if name not in self._entity)
        if columns != self.twin.columns:
            self.twin = self.twin.renamed(columns)
            self._be_born()
        places = [(parts.index(name), j) for j, name in enumerate(columns) if name in batch]
        for i in np.flatnonzero(keep.any(axis=1)).tolist():
            named = tuple(wire.plain(batch[name][i]) for name in self._entity)
            values = {j: wire.plain(batch[columns[j]][i]) for part, j in places if keep[i, part]}
            yield Report(named, float(times[i]), values)

    def _send(self, message: bytes) -> None:
        """Publish reports; after the first of a connection, the topic's alias stands for it."""
        client = self._client
        if client is None:
            return
        topic = wire.topic(self.stream, "NDATA", self.node)
        first, alias = self._sent_here == 0, self._alias
        named = topic if first or alias is None else ""
        sent = client.publish(named, message, properties=alias)
        if sent.rc == MQTT_ERR_SUCCESS:
            self._sent_here += 1
            self.messages += 1
            self.bytes += packet_bytes(named, message, alias)

    # The connection

    def _before(self, client: Client) -> None:
        self._session = (self._session + 1) % wire.SESSIONS
        self._sent_here = 0
        death = wire.DEATH.pack(self._session)
        client.will_set(wire.topic(self.stream, "NDEATH", self.node), death, qos=1, retain=True)

    def _accepted(self, client: Client, aliases: int) -> None:
        self._alias = topic_alias() if aliases else None
        client.subscribe([
            (wire.topic(self.stream, "plan"), 1), (wire.topic(self.stream, "NCMD", self.node), 1),
        ])  # fmt: skip
        self._be_born()
        self.plans.tell = self._tell
        self.client.report_swap()

    def _be_born(self) -> None:
        """Publish all values; the sequence goes on, so that no birth can be taken for a later."""
        if self._client is not None:
            self._seq = (self._seq + 1) % wire.SEQUENCE
            birth = wire.encode_birth(self.twin.birth(self._session, self._seq))
            topic = wire.topic(self.stream, "NBIRTH", self.node)
            self._client.publish(topic, birth, retain=True)
            self.births += 1
            self.bytes += packet_bytes(topic, birth, None)

    def _arrived(self, client: Client, message: MQTTMessage) -> None:
        if message.topic == wire.topic(self.stream, "plan"):
            if self.plans.arrive(self.stream, bytes(message.payload)):
                self.client.wake()
        elif message.payload == wire.REBIRTH:
            with self._lock:
                self._be_born()

    def _lost(self) -> None:
        self.plans.tell = None

    def _tell(self, stream: str, status: Status) -> None:
        client = self._client
        if client is not None:
            topic = wire.topic(stream, "nodes", self.node)
            client.publish(topic, statuses.encode(status), qos=1, retain=True)
            self.statuses += 1

    def _leave(self, client: Client) -> None:
        topic = wire.topic(self.stream, "NDEATH", self.node)
        sent = client.publish(topic, wire.DEATH.pack(self._session), qos=1, retain=True)
        end = time.monotonic() + LEAVE_S
        while not sent.is_published() and time.monotonic() < end:
            client.loop(0.1)


class Tracks:
    """The last position of every object, for the velocity of its last step.

    As the shedder has it: a jump and a first position have none, late positions change nothing,
    and an object is unknown until it was reported.
    """

    def __init__(self, highest_speed: float) -> None:
        self._highest_speed = highest_speed
        self._last: dict[Any, tuple[float, float, float]] = {}

    def reports(self, batch: Columns, keep: BoolArray) -> Iterator[Report]:
        """Yield the reports of the positions that are kept."""
        rows = zip(batch["object_id"], batch["time"], batch["x"], batch["y"], keep, strict=True)
        for name, *numbers, kept in rows:
            named = wire.plain(name)
            try:
                t, x, y = (float(number) for number in numbers)
            except (TypeError, ValueError):
                continue
            last = self._last.get(named)
            if not math.isfinite(t + x + y) or (last is None and not kept):
                continue
            vx = vy = 0.0
            if last is not None:
                if not t > last[0]:
                    continue
                vx, vy = (x - last[1]) / (t - last[0]), (y - last[2]) / (t - last[0])
                if vx * vx + vy * vy > self._highest_speed**2:
                    vx = vy = 0.0
            self._last[named] = t, x, y
            if kept:
                position = round(x, CENTIMETRES), round(y, CENTIMETRES)
                velocity = round(vx, MILLIMETRES), round(vy, MILLIMETRES)
                yield Report((named,), t, dict(enumerate((*position, *velocity))))


def topic_alias() -> Properties:
    """Return the properties of a message whose topic has a number from now on."""
    properties = Properties(PacketTypes.PUBLISH)  # type: ignore[no-untyped-call]
    properties.TopicAlias = 1
    return properties


def packet_bytes(topic: str, payload: bytes, properties: Properties | None) -> int:
    """Return the bytes of a PUBLISH packet of MQTT 5 with QoS 0.

    >>> packet_bytes("a/b", b"12345", None)
    13
    """
    length = 2 + len(topic.encode()) + len(payload)
    length += len(properties.pack()) if properties is not None else 1  # type: ignore[no-untyped-call]
    return 1 + (1 + sum(length >= 1 << 7 * k for k in (1, 2, 3))) + length

"""The other end: rebuilds what nodes report, and says which of it is current.

A node's values are current from its birth on, as long as no message is missing, no death has come
and the broker can be reached. In every other state they are not shown as current, and the node is
asked for a new birth. So a node that is silent, because it has nothing to report, is told from one
that is dead.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

from paho.mqtt.client import Client, MQTTMessage

from planning.artifacts.reading import check_stream
from planning.runtime.mqtt import wire
from planning.runtime.mqtt.link import Link
from planning.runtime.mqtt.twin import Entity, Twin, Value

State = Literal["unknown", "alive", "stale", "dead"]
KINDS = ("NBIRTH", "NDATA", "NDEATH")
ASK_S, LONGEST_ASK_S = 1.0, 60.0  # between two requests to one node, doubled each time
AUDIT_S = 60.0


class Shown(NamedTuple):
    """What is known of a node: ``current`` is empty unless it is alive."""

    state: State
    session: int
    seq: int
    current: dict[Entity, dict[str, Value]]
    last: dict[Entity, dict[str, Value]]
    """What was last known, whether it is current or not."""


@dataclass(slots=True)
class _Peer:
    state: State = "unknown"
    session: int = -1
    seq: int = -1
    twin: Twin = field(default_factory=lambda: Twin(()))
    heard: int = -1  # the session of the last birth, also of one that is past
    ended: int = -1  # the session that a death was told of
    ask_at_s: float = 0.0
    asked: int = 0


class Receiver(Link):
    """Follows all nodes of a stream.

    Parameters
    ----------
    address, stream
        The broker and the stream.
    listener
        Called with a node's name whenever what is shown of it has changed, on the receiver's
        thread; ``shown`` then says what.
    audit_s
        Seconds between two looks at who is there: a birth that was lost on the way is asked for
        again.
    connection
        Further arguments of the connection (:class:`~planning.runtime.mqtt.link.Link`).
    """

    def __init__(
        self,
        address: str,
        stream: str,
        *,
        listener: Callable[[str], None] | None = None,
        audit_s: float = AUDIT_S,
        **connection: Any,
    ) -> None:
        super().__init__(
            address, f"headgate-{check_stream(stream)}-receiver-{secrets.token_hex(4)}",
            **connection,
        )  # fmt: skip
        self.stream = stream
        self.lost = self.refused = self.asked = self.births = self.reports = 0
        self._listener = listener
        self._audit_s = audit_s
        self._audit_at_s = 0.0
        self._peers: dict[str, _Peer] = {}

    def shown(self, node: str) -> Shown:
        """Return what is known of a node."""
        with self._lock:
            peer = self._peers.get(node) or _Peer()
            rows = peer.twin.rows()
            alive = peer.state == "alive"
            return Shown(peer.state, peer.session, peer.seq, rows if alive else {}, rows)

    def states(self) -> dict[str, State]:
        """Return the state of every node that was heard of."""
        with self._lock:
            return {node: peer.state for node, peer in self._peers.items()}

    def positions(self, now_s: float) -> Iterator[tuple[str, Entity, float, float]]:
        """Yield node, object, x and y now, of nodes that are alive, by dead reckoning."""
        for node in self.states():
            for entity, row in self.shown(node).current.items():
                x, y, vx, vy = (row[name] for name in ("x", "y", "vx", "vy"))
                age = now_s - x.time_s
                yield node, entity, x.value + vx.value * age, y.value + vy.value * age

    # The connection

    def _accepted(self, client: Client, aliases: int) -> None:
        self._audit(client)

    def _audit(self, client: Client) -> None:
        """Subscribe, also again: the broker then repeats all retained births and deaths."""
        self._audit_at_s = time.monotonic() + self._audit_s
        # QoS 0 for what must stay in order, and 1 for what must arrive.
        client.subscribe([
            (wire.topic(self.stream, kind, "+"), int(kind == "NDEATH")) for kind in KINDS
        ])  # fmt: skip

    def _look(self) -> None:
        now = time.monotonic()
        with self._lock:
            client = self._client
            if client is None:
                return
            for node, peer in self._peers.items():
                if peer.state in ("unknown", "stale") and now >= peer.ask_at_s:
                    self._ask(node, peer)
            if now >= self._audit_at_s:
                self._audit(client)

    def _lost(self) -> None:
        for node, peer in self._peers.items():
            if peer.state == "alive":
                self._change(node, peer, "stale")

    def _arrived(self, client: Client, message: MQTTMessage) -> None:
        _, _, kind, node = message.topic.split("/")
        with self._lock:
            peer, payload = self._peers.setdefault(node, _Peer()), bytes(message.payload)
            try:
                if kind == "NBIRTH":
                    self._birth(node, peer, payload, message.retain)
                elif kind == "NDATA":
                    self._data(node, peer, payload)
                else:
                    self._death(node, peer, payload)
            except Exception as error:
                self.refused += 1
                self.problem = f"{message.topic} cannot be read: {error}"
                self._doubt(node, peer)

    def _birth(self, node: str, peer: _Peer, data: bytes, retained: bool) -> None:
        birth = wire.decode_birth(data)
        peer.heard = birth.session
        if retained:
            # It was true once. Whoever is still there can say what is true now.
            if peer.state == "alive" and peer.session == birth.session:
                return
            if birth.session != peer.ended:
                self._doubt(node, peer)
            return
        peer.twin = Twin.of(birth)
        peer.session, peer.seq, peer.asked, peer.ask_at_s = birth.session, birth.seq, 0, 0.0
        self.births += 1
        self._change(node, peer, "alive")

    def _data(self, node: str, peer: _Peer, data: bytes) -> None:
        tag, seq = wire.DATA.unpack_from(data)
        expected = peer.session & 0xFF, (peer.seq + 1) % wire.SEQUENCE
        if peer.state != "alive" or (tag, seq) != expected:
            self.lost += peer.state == "alive"
            self._doubt(node, peer)
            return
        peer.twin.apply(data[wire.DATA.size :])
        peer.seq = seq
        self.reports += 1
        self._change(node, peer, "alive")

    def _death(self, node: str, peer: _Peer, data: bytes) -> None:
        (peer.ended,) = wire.DEATH.unpack(data)
        if peer.ended == peer.heard or peer.heard < 0:
            self._change(node, peer, "dead")
        elif peer.state == "alive":  # late, or of a session whose birth was lost: the node knows
            self._doubt(node, peer)

    def _doubt(self, node: str, peer: _Peer) -> None:
        """Show nothing as current until the node is born again, and ask for that."""
        if peer.state in ("alive", "dead"):
            self._change(node, peer, "stale")
        if time.monotonic() >= peer.ask_at_s:
            self._ask(node, peer)

    def _ask(self, node: str, peer: _Peer) -> None:
        if self._client is None:
            return
        wait = min(ASK_S * 2.0 ** min(peer.asked, 30), LONGEST_ASK_S)
        peer.asked, peer.ask_at_s = peer.asked + 1, time.monotonic() + wait
        self._client.publish(wire.topic(self.stream, "NCMD", node), wire.REBIRTH, qos=1)
        self.asked += 1

    def _change(self, node: str, peer: _Peer, state: State) -> None:
        peer.state = state
        if self._listener is not None:
            self._listener(node)

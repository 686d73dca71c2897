"""A connection to a broker that comes back: a new client for every connection.

Nothing of a lost connection is sent again on the next one, so what was under way then can never
overtake what is true now.
"""

from __future__ import annotations

import logging
import random
import threading
import urllib.parse
from collections.abc import Callable
from typing import Any, Self

from paho.mqtt.client import MQTT_ERR_SUCCESS, Client, MQTTMessage, MQTTv5
from paho.mqtt.enums import CallbackAPIVersion

from planning.errors import InvalidInput

PORTS = {"mqtt": 1883, "mqtts": 8883}
LOOK_S = 1.0
LEAVE_S = 2.0
log = logging.getLogger(__name__)


def parse(address: str) -> tuple[str, int, bool]:
    """Return host, port and whether TLS is spoken.

    >>> parse("broker:1884"), parse("mqtts://broker")
    (('broker', 1884, False), ('broker', 8883, True))
    """
    parts = urllib.parse.urlsplit(address if "://" in address else f"mqtt://{address}")
    if parts.scheme not in PORTS or not parts.hostname:
        raise InvalidInput(f"address must be mqtt://host:port or mqtts://host:port, got {address}")
    return parts.hostname, parts.port or PORTS[parts.scheme], parts.scheme == "mqtts"


class Link:
    """Connects, and goes on connecting; what happens then is up to the subclass.

    Parameters
    ----------
    address
        ``mqtt://host:port``, or ``mqtts://`` for TLS with the system's authorities.
    client_id
        The name under which the broker knows this client; it must be its own.
    configure
        Called with every new ``paho.mqtt.client.Client``: user name, password, certificates.
    keepalive_s
        After one and a half of this without a word, the broker takes a client for dead.
    wait_s, longest_wait_s
        Between two attempts to connect: doubled at every failure, and shortened by chance, so that
        not all come back at once.
    """

    def __init__(
        self,
        address: str,
        client_id: str,
        *,
        configure: Callable[[Client], None] | None = None,
        keepalive_s: int = 30,
        wait_s: float = 0.5,
        longest_wait_s: float = 30.0,
    ) -> None:
        self._host, self._port, self._tls = parse(address)
        self._client_id = client_id
        self._configure = configure
        self._keepalive_s = keepalive_s
        self._waits_s = wait_s, longest_wait_s
        self._failures = 0
        self._client: Client | None = None  # while it is accepted by the broker
        self._lock = threading.RLock()
        self._end = threading.Event()
        self._thread: threading.Thread | None = None
        self.connections = 0
        self.errors = 0
        self.problem = ""

    # What a subclass does

    def _before(self, client: Client) -> None:
        """Prepare a client before it connects, for example its last will."""

    def _accepted(self, client: Client, aliases: int) -> None:
        """Begin, with so many aliases of topics; the lock is held."""

    def _arrived(self, client: Client, message: MQTTMessage) -> None:
        """Take a message."""

    def _look(self) -> None:
        """Do what is due every second."""

    def _lost(self) -> None:
        """Take note that there is no connection any longer; the lock is held."""

    def _leave(self, client: Client) -> None:
        """Say farewell."""

    # What it gets

    @property
    def connected(self) -> bool:
        """Whether the broker has accepted this client."""
        return self._client is not None

    def start(self) -> Self:
        """Connect in the background, and stay connected until :meth:`stop`."""
        if self._thread is None:
            self._end.clear()
            self._thread = threading.Thread(
                target=self._run, name=f"mqtt-{self._client_id}", daemon=True
            )
            self._thread.start()
        return self

    def stop(self) -> None:
        """Say farewell and end the connection."""
        self._end.set()
        thread, self._thread = self._thread, None
        if thread is not None:
            thread.join(2 * LEAVE_S)

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _run(self) -> None:
        while not self._end.is_set():
            client = self._new_client()
            try:
                client.connect(self._host, self._port, self._keepalive_s, clean_start=True)
                while not self._end.is_set() and client.loop(LOOK_S) == MQTT_ERR_SUCCESS:
                    self._guarded(self._look)
                if self._end.is_set():
                    self._part(client)
            except OSError as error:
                self.problem = f"{self._host}:{self._port} cannot be reached: {error}"
            except Exception as error:
                self._note(error)
            finally:
                self._forget(client)
            self._failures += 1
            shortest, longest = self._waits_s
            wait = min(shortest * 2.0 ** min(self._failures - 1, 30), longest)
            self._end.wait(wait * random.uniform(0.5, 1.0))

    def _new_client(self) -> Client:
        client = Client(
            CallbackAPIVersion.VERSION2, self._client_id, protocol=MQTTv5,
            reconnect_on_failure=False,
        )  # fmt: skip
        if self._tls:
            client.tls_set()
        if self._configure is not None:
            self._configure(client)
        client.on_connect = self._on_connect
        client.on_message = self._on_message
        client.on_disconnect = lambda client, *_: self._forget(client)
        # With this, publishing only queues, and one thread alone writes to the socket.
        client.on_socket_register_write = lambda *_: None
        self._before(client)
        return client

    def _on_connect(self, client: Client, _: Any, __: Any, reason: Any, said: Any) -> None:
        if reason.is_failure:
            self.problem = f"{self._host}:{self._port} refuses the connection: {reason}"
            return
        with self._lock:
            self._failures, self.problem, self._client = 0, "", client
            self.connections += 1
            aliases = getattr(said, "TopicAliasMaximum", 0)
            self._guarded(lambda: self._accepted(client, aliases))

    def _on_message(self, client: Client, _: Any, message: MQTTMessage) -> None:
        self._guarded(lambda: self._arrived(client, message))

    def _forget(self, client: Client) -> None:
        with self._lock:
            if self._client is client:
                self._client = None
                self._guarded(self._lost)

    def _part(self, client: Client) -> None:
        if self._client is client:
            self._guarded(lambda: self._leave(client))
            client.disconnect()
            while client.loop(LEAVE_S) == MQTT_ERR_SUCCESS and client.is_connected():
                pass

    def _guarded(self, work: Callable[[], None]) -> None:
        try:
            work()
        except Exception as error:  # a message must not end the connection
            self._note(error)

    def _note(self, error: Exception) -> None:
        self.errors += 1
        self.problem = f"{type(error).__name__}: {error}"
        log.warning("%s: %s", self._client_id, self.problem)

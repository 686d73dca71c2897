"""Plans as retained messages: what a publisher puts there, and how a device reads it."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, NamedTuple

from paho.mqtt.client import Client, MQTTv5
from paho.mqtt.enums import CallbackAPIVersion

from planning.artifacts import Published, Reader, Status, TrustedKeys, Unverified, drafting
from planning.artifacts import manifest as manifests
from planning.artifacts.manifest import Encoding, Manifest, Payload
from planning.errors import ArtifactError, NoPlan, StoreError
from planning.runtime.mqtt import link, wire

# Threads that decode messages of a type for the first time at once crash msgspec 0.22.
DECODING = threading.RLock()
WAIT_S = 3600.0  # for news, before a client looks by itself
PATIENCE_S = 10.0


class _Held(NamedTuple):
    version: int
    manifest: bytes
    payload: bytes


class PlanMessages(Reader):
    """The newest sound plan of each stream that has arrived as a message.

    A message is believed as little as a file in a store. One that is forged, damaged, mixed of two
    versions, of another stream or older than what is known is refused: counted in ``refusals``,
    with its reason in ``refused``; what was there before stays.

    Parameters
    ----------
    source
        The broker's address: what a node remembers of one broker has no say for another.
    trusted
        The keys whose signatures are accepted, as for every reader.

    Examples
    --------
    >>> from planning.examples import demo_store
    >>> store, signer = demo_store("sifter", versions=2)
    >>> plans = PlanMessages("mqtt://broker", TrustedKeys.of(signer))
    >>> plans.arrive("ticks", message_of(store, "ticks", 2)), plans.newest("ticks")
    (True, 2)
    >>> plans.arrive("ticks", message_of(store, "ticks", 1)), plans.newest("ticks")
    (False, 2)
    >>> plans.refused
    'version 1 of ticks is older than 2'
    """

    patience_s = 1.0

    def __init__(self, source: str, trusted: TrustedKeys | Unverified | None = None) -> None:
        self.root = source  # type: ignore[assignment]
        self.trusted = TrustedKeys.of() if trusted is None else trusted
        self.refusals = 0
        self.refused = ""
        self.seen: dict[str, int] = {}
        self.tell: Callable[[str, Status], None] | None = None
        self._held: dict[str, _Held] = {}

    def arrive(self, stream: str, message: bytes) -> bool:
        """Take a message if it is sound and no older than what is known; return whether it is."""
        try:
            with DECODING:
                held = self._checked(stream, message)
        except Exception as error:
            self.refusals += 1
            self.refused = str(error) or type(error).__name__
            return False
        self._held[stream], self.seen[stream] = held, held.version
        return True

    def _checked(self, stream: str, message: bytes) -> _Held:
        encoded, payload = wire.split_plan(message)
        source = wire.topic(stream, "plan")
        manifest = manifests.decode(encoded, source)
        if manifest.stream != stream:
            raise ArtifactError(f"{source} holds a plan of {manifest.stream}")
        self.trusted.verify(manifest, source)
        if manifest.version < self.seen.get(stream, 0):
            raise ArtifactError(
                f"version {manifest.version} of {stream} is older than {self.seen[stream]}"
            )
        due = manifest.payloads.binary
        if len(payload) != due.bytes or drafting.digest(payload) != due.digest:
            raise ArtifactError(f"{source} holds another payload than that of its manifest")
        return _Held(manifest.version, encoded, payload)

    # What a client asks for

    def folder(self, stream: str, part: str = "") -> Any:
        """Return the topic of a stream's plan."""
        return f"{self.root}/{wire.topic(stream, 'plan')}"

    def manifest_path(self, stream: str, version: int) -> Any:
        """Return where a manifest comes from."""
        return self.folder(stream)

    def payload_path(self, stream: str, payload: Payload, encoding: Encoding) -> Any:
        """Return where a payload comes from."""
        return self.folder(stream)

    def there(self) -> bool:
        """Whether there is a broker; a client waits for its messages either way."""
        return True

    def versions(self, stream: str) -> tuple[int, ...]:
        """Return the version at hand."""
        held = self._held.get(stream)
        return () if held is None else (held.version,)

    def manifest_bytes(self, stream: str, version: int) -> bytes:
        """Return the manifest at hand."""
        return self._of(stream, version).manifest

    def payload_bytes(self, manifest: Manifest, encoding: Encoding) -> bytes:
        """Return the payload at hand; only the binary one is sent to devices."""
        if encoding != "binary":
            raise FileNotFoundError(encoding)
        return self._of(manifest.stream, manifest.version).payload

    def manifest(self, stream: str, version: int) -> Manifest:
        """Return the manifest at hand, verified."""
        with DECODING:
            return super().manifest(stream, version)

    def published(self, manifest: Manifest, encoding: Encoding = "binary") -> Published:
        """Return the version of a verified manifest with its plan."""
        with DECODING:
            return super().published(manifest, encoding)

    def _of(self, stream: str, version: int) -> _Held:
        held = self._held.get(stream)
        if held is None or held.version != version:  # a newer one has arrived meanwhile
            raise NoPlan(f"version {version} of {stream} is not at hand any longer")
        return held

    def wait(self, stream: str, wake: threading.Event) -> float:
        """Wait until a message has arrived; return infinity if one has."""
        return float("inf") if wake.wait(WAIT_S) else WAIT_S

    def report(self, stream: str, status: Status) -> None:
        """Send a node's status, if there is a connection."""
        if self.tell is None:
            raise StoreError(f"{self.root} is not connected")
        self.tell(stream, status)


def message_of(store: Reader, stream: str, version: int | None = None) -> bytes:
    """Return the message of a version, the newest by default: the store's own bytes, verified."""
    published = store.load(stream, version)
    encoded = store.manifest_bytes(stream, published.manifest.version)
    return wire.join_plan(encoded, published.data)


def publish_plan(
    address: str,
    store: Reader,
    stream: str,
    version: int | None = None,
    *,
    configure: Callable[[Client], None] | None = None,
) -> int:
    """Put a version of a store, the newest by default, where devices find it; return its bytes.

    The message is retained: a device that connects later gets it at once.
    """
    message = message_of(store, stream, version)
    host, port, tls = link.parse(address)
    client = Client(CallbackAPIVersion.VERSION2, protocol=MQTTv5)
    if tls:
        client.tls_set()
    if configure is not None:
        configure(client)
    try:
        client.connect(host, port)
        client.loop_start()
        sent = client.publish(wire.topic(stream, "plan"), message, qos=1, retain=True)
        sent.wait_for_publish(PATIENCE_S)
        if not sent.is_published():
            raise StoreError(f"{address} did not take the plan within {PATIENCE_S:.0f} s")
    except OSError as error:
        raise StoreError(f"{address} cannot be reached: {error}") from None
    finally:
        client.disconnect()
        client.loop_stop()
    return len(message)

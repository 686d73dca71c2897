"""What a node remembers of a stream across restarts: the last good plan and the highest version.

Both lie in a folder of the node's own, laid out like a small store; nothing in it is believed
without a check: the plan is verified again, with the keys that are trusted then.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from planning.artifacts import Manifest, Published, Reader, TrustedKeys, Unverified, files
from planning.artifacts import manifest as manifests
from planning.artifacts.files import Location
from planning.errors import PlanningError

VARIABLE = "HEADGATE_MEMORY"
TOUCH_S = 60.0


def default_folder() -> Path:
    """Return where nodes remember: ``HEADGATE_MEMORY``, else the user's folder for state."""
    state = os.environ.get("XDG_STATE_HOME") or "~/.local/state"
    return Path(os.environ.get(VARIABLE) or Path(state).expanduser() / "headgate")


class Memory:
    """The memory of one node about one stream of one store.

    Examples
    --------
    >>> import tempfile
    >>> from planning.examples import demo_store
    >>> store, signer = demo_store("sifter")
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     memory = Memory(folder, str(store.root), "edge-7", "ticks")
    ...     memory.keep(store.load("ticks"))
    ...     after = Memory(folder, str(store.root), "edge-7", "ticks")
    ...     after.seen, after.recall(TrustedKeys.of(signer)).manifest.version
    (1, 1)
    """

    def __init__(self, folder: Location, source: str, node: str, stream: str) -> None:
        # Another store's versions have nothing to do with this one's.
        store = hashlib.sha256(source.encode()).hexdigest()[:16]
        self.stream = stream
        self.reader = Reader(files.folder(folder) / node / store)
        self.problem = ""
        self._mark = files.local(self.reader.folder(stream)) / "seen"
        self.seen, self.reached_at_s = self._read()

    def recall(self, trusted: TrustedKeys | Unverified) -> Published | None:
        """Return the newest plan that can be verified now, if any."""
        self.reader.trusted = trusted
        try:
            for found in self.reader.newer(self.stream):
                if isinstance(found, Published):
                    return found
                self.problem = found.problem
        except PlanningError as error:
            self.problem = str(error)
        return None

    def see(self, version: int) -> None:
        """Remember the number of a verified version, if it is the highest so far."""
        if version <= self.seen:
            return
        self.seen = version
        self._try(lambda: files.replace(files.folder(self._mark), b"%d\n" % version))

    def keep(self, published: Published) -> None:
        """Remember a plan that is in force, in place of the one before."""
        self.see(published.manifest.version)
        self._try(lambda: self._keep(published.manifest, published.data))

    def reached(self, now_s: float) -> None:
        """Remember, now and then, that the store could be reached."""
        if self.reached_at_s is None or abs(now_s - self.reached_at_s) >= TOUCH_S:
            self.reached_at_s = now_s
            with suppress(OSError):
                os.utime(self._mark, (now_s, now_s))

    def _keep(self, manifest: Manifest, data: bytes) -> None:
        reader, stream = self.reader, self.stream
        for part in ("payloads", "versions"):
            files.make(reader.folder(stream, part))
        payload = reader.payload_path(stream, manifest.payloads.binary, "binary")
        path = reader.manifest_path(stream, manifest.version)
        files.replace(payload, data)
        files.replace(path, manifests.encode(manifest))
        for kept in (path, payload):
            for name in files.names(kept.parent):
                if name != kept.name:
                    files.remove(kept.parent / name)

    def _try(self, write: Callable[[], None]) -> None:
        try:
            files.make(files.folder(self._mark.parent))
            write()
            self.problem = ""
        except Exception as error:  # a full or missing disk must not keep a node from a new plan
            self.problem = f"this node cannot remember its plan: {error}"

    def _read(self) -> tuple[int, float | None]:
        try:
            text = files.read(files.folder(self._mark), 64)
            return max(0, int(text)), self._mark.stat().st_mtime
        except (OSError, ValueError, PlanningError):
            return 0, None

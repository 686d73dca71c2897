"""Who may ask ``headgate serve`` for what: a file of tokens, of which it holds only digests.

A token is 256 random bits, shown once when it is made. The file is read again whenever it changes,
so that a removed token stops working at once; if it is damaged, the last good ones stay valid.
"""

from __future__ import annotations

import hashlib
import logging
import os
import secrets
import stat
import time
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Annotated, Literal

import msgspec
from msgspec import Meta, Struct

from planning.artifacts import files
from planning.artifacts.manifest import Time, from_time
from planning.artifacts.status import NODE_PATTERN
from planning.errors import InvalidInput, PlanningError, StoreError

Role = Literal["node", "operator"]
Name = Annotated[str, Meta(pattern=NODE_PATTERN)]
log = logging.getLogger(__name__)


class Token(Struct, frozen=True, forbid_unknown_fields=True):
    """What the bearer of a token may do.

    Parameters
    ----------
    node
        The node as which its bearer may report; an operator's token has none.
    streams
        Names and patterns such as ``fleet-*``.

    Examples
    --------
    >>> token = Token("edge-7", "0" * 64, ("ticks", "fleet-*"), node="edge-7")
    >>> token.reads("fleet-3"), token.reads("quotes")
    (True, False)
    """

    name: Name
    sha256: Annotated[str, Meta(pattern="^[0-9a-f]{64}$")]
    streams: Annotated[tuple[str, ...], Meta(min_length=1)]
    role: Role = "node"
    node: Name | None = None
    not_after: Time | None = None

    def reads(self, stream: str) -> bool:
        """Whether it is for a stream."""
        return any(fnmatchcase(stream, pattern) for pattern in self.streams)


class Tokens:
    """The tokens in a file.

    Examples
    --------
    >>> import tempfile
    >>> folder = tempfile.TemporaryDirectory()
    >>> tokens = Tokens(Path(folder.name) / "tokens.json")
    >>> secret = tokens.add("edge-7", ("ticks",))
    >>> tokens.find(secret).node, tokens.find("something else")
    ('edge-7', None)
    >>> tokens.remove("edge-7")
    >>> tokens.find(secret)
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path).absolute()
        self.problem = ""
        self._stamp: object = None
        self._tokens: dict[str, Token] = {}

    def load(self) -> list[Token]:
        """Return the tokens in the file; none if there is no file."""
        try:
            mode = stat.S_IMODE(self.path.stat().st_mode)
            data = files.read(files.folder(self.path))
        except FileNotFoundError:
            return []
        if mode & 0o077:
            raise StoreError(
                f"{self.path} must belong to one user alone, got mode {mode:o}; run `chmod 600` on "
                "it, and check that nobody has added a token"
            )
        try:
            return _decode(data)
        except (msgspec.MsgspecError, UnicodeError, RecursionError, InvalidInput) as error:
            raise StoreError(
                f"{self.path} is not a file of tokens ({error}); restore it, or make it anew with "
                "`headgate tokens add`"
            ) from None

    def find(self, secret: str) -> Token | None:
        """Return what a token allows, or None if it is unknown, removed or expired."""
        self._renew()
        token = self._tokens.get(_digest(secret))
        if token is None or token.not_after is None:
            return token
        return token if time.time() < from_time("", token.not_after).timestamp() else None

    def add(
        self,
        name: str,
        streams: tuple[str, ...],
        role: Role = "node",
        node: str | None = None,
        not_after: str | None = None,
    ) -> str:
        """Add a token and return its secret, which is kept nowhere."""
        secret = secrets.token_urlsafe(32)
        node = (node or name) if role == "node" else None
        token = Token(name, _digest(secret), streams, role, node, not_after)
        self._replace(name, token)
        return secret

    def remove(self, name: str) -> None:
        """Remove a token."""
        self._replace(name, None)

    def _replace(self, name: str, new: Token | None) -> None:
        folder = files.folder(self.path.parent)
        files.make(folder)
        with files.lock(folder, exclusive=True):
            tokens = self.load()
            others = [token for token in tokens if token.name != name]
            if (len(others) < len(tokens)) == bool(new):
                have = ", ".join(token.name for token in tokens) or "no token"
                raise InvalidInput(
                    f"name must be {'none' if new else 'one'} of those in {self.path} ({have}), "
                    f"got {name}"
                )
            data = msgspec.json.encode([*others, new] if new else others)
            try:
                _decode(data)
            except (msgspec.ValidationError, InvalidInput) as error:
                raise InvalidInput(f"this cannot be a token: {error}") from None
            data = msgspec.json.format(data, indent=1) + b"\n"
            files.replace(files.folder(self.path), data, mode=0o600)

    def _renew(self) -> None:
        try:
            found = self.path.stat()
            stamp: object = (found.st_mtime_ns, found.st_ino, found.st_size, found.st_mode)
        except OSError as error:
            stamp = str(error)
        if stamp == self._stamp:
            return
        self._stamp = stamp
        try:
            if isinstance(stamp, str):
                raise StoreError(f"{self.path} cannot be read ({stamp})")
            self._tokens = {token.sha256: token for token in self.load()}
            self.problem = ""
        except (PlanningError, OSError) as error:
            self.problem = str(error)
            log.error("%s; the tokens that were valid before stay valid", error)


def _decode(data: bytes) -> list[Token]:
    tokens = msgspec.json.decode(data, type=list[Token])
    for token in tokens:
        if token.not_after is not None:
            from_time("not_after", token.not_after)
    return tokens


def _digest(secret: str) -> str:
    return hashlib.sha256(secret.encode("utf-8", errors="replace")).hexdigest()

"""Ed25519 signatures: who may publish, and which keys a reader trusts.

``keys/signing.pem`` is the private key of a publisher (mode 0600); ``keys/trusted/<key id>.pem``
are the public keys that readers accept. A source node gets only the ``trusted`` folder. A key's id
is the start of the SHA-256 of its 32 raw bytes.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import stat
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Self

import msgspec
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_pem_private_key,
    load_pem_public_key,
)

from planning.artifacts import files
from planning.artifacts.files import Location
from planning.artifacts.manifest import Manifest, signed_bytes
from planning.errors import ArtifactError, SignatureError, StoreError

if TYPE_CHECKING:
    from upath import UPath

PRIVATE = "signing.pem"
TRUSTED = "trusted"
KEY_ID_LENGTH = 16


def key_id(public: Ed25519PublicKey) -> str:
    """Return the id of a public key: the first 16 hex digits of the SHA-256 of its raw bytes."""
    return hashlib.sha256(public.public_bytes_raw()).hexdigest()[:KEY_ID_LENGTH]


@dataclass(frozen=True, slots=True)
class SigningKey:
    """A publisher's private key.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as keys:
    ...     signer = SigningKey.load_or_create(keys)
    ...     SigningKey.load(keys).key_id == signer.key_id, list(TrustedKeys.load(keys).keys) == [
    ...         signer.key_id]
    (True, True)
    """

    private: Ed25519PrivateKey = field(repr=False)

    @classmethod
    def load_or_create(cls, folder: Location) -> Self:
        """Return the key of a keys folder, created on first use; its public half becomes trusted.

        Publishers that start at the same time end up with one key.
        """
        keys = files.folder(folder)
        path = keys / PRIVATE
        try:
            key = cls(_read_private(path))
        except FileNotFoundError:
            files.make(keys)
            private = Ed25519PrivateKey.generate()
            pem = private.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
            made = files.create(path, pem, mode=0o600)
            key = cls(private if made else _read_private(path))
        _trust(keys, key.public)
        return key

    @classmethod
    def load(cls, folder: Location) -> Self:
        """Return the key of a keys folder, which must have one."""
        path = files.folder(folder) / PRIVATE
        try:
            return cls(_read_private(path))
        except FileNotFoundError:
            raise SignatureError(
                f"{path} is missing: there is no key to sign with; copy the publisher's key there, "
                "or create one with SigningKey.load_or_create"
            ) from None

    @property
    def public(self) -> Ed25519PublicKey:
        """The public half."""
        return self.private.public_key()

    @property
    def key_id(self) -> str:
        """Id of the key."""
        return key_id(self.public)

    def sign(self, manifest: Manifest) -> Manifest:
        """Return the manifest with this key's id and signature."""
        unsigned = msgspec.structs.replace(manifest, key_id=self.key_id, signature="")
        signature = self.private.sign(signed_bytes(unsigned))
        return msgspec.structs.replace(unsigned, signature=base64.b64encode(signature).decode())


@dataclass(frozen=True, slots=True)
class TrustedKeys:
    """The public keys whose signatures a reader accepts.

    Examples
    --------
    >>> from planning.artifacts import Store
    >>> from planning.examples import demo_store
    >>> published, signer = demo_store("sifter")
    >>> Store(published.root, TrustedKeys.of(signer)).latest("ticks").version
    1
    >>> Store(published.root, TrustedKeys.of()).latest("ticks")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ...
    planning.errors.SignatureError: ... but this reader trusts no key; copy the publisher's ...
    """

    keys: Mapping[str, Ed25519PublicKey]
    folder: UPath | None = None
    named: Mapping[str, Ed25519PublicKey] = field(default_factory=dict)  # by file in the folder
    unusable: str = ""  # what is wrong with a file that came later

    @classmethod
    def load(cls, folder: Location) -> Self:
        """Return the keys in ``<folder>/trusted/*.pem``; ``folder`` is the keys folder."""
        keys = files.folder(folder)
        named = {path.name: _read_public(path) for path in _pem(keys / TRUSTED)}
        return cls(cls.of(*named.values()).keys, keys, named)

    def renewed(self) -> Self:
        """Return the keys that are in the folder now; if the folder is gone, those it had.

        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as keys:
        ...     signer = SigningKey.load_or_create(keys)
        ...     trusted = TrustedKeys.load(keys)
        ...     files.folder(keys).joinpath("trusted", f"{signer.key_id}.pem").unlink()
        ...     len(trusted.keys), len(trusted.renewed().keys)
        (1, 0)
        """
        if self.folder is None or not (self.folder / TRUSTED).is_dir():
            return self
        paths = _pem(self.folder / TRUSTED)
        if not self.unusable and [path.name for path in paths] == list(self.named):
            return self
        named, unusable = {}, ""
        for path in paths:
            try:
                named[path.name] = self.named.get(path.name) or _read_public(path)
            except (ArtifactError, StoreError, FileNotFoundError) as error:
                unusable = str(error)
        return type(self)(type(self).of(*named.values()).keys, self.folder, named, unusable)

    @classmethod
    def of(cls, *keys: Ed25519PublicKey | SigningKey) -> Self:
        """Return the given keys as the trusted ones."""
        public = [key.public if isinstance(key, SigningKey) else key for key in keys]
        return cls(MappingProxyType({key_id(key): key for key in public}))

    def verify(self, manifest: Manifest, source: str) -> None:
        """Raise :class:`SignatureError` unless a trusted key signed the manifest."""
        if not manifest.signature:
            raise SignatureError(
                f"{source} is not signed; publish it again with a signing key, or read it "
                "unverified if you mean to"
            )
        public = self.keys.get(manifest.key_id)
        if public is None:
            known = ", ".join(sorted(self.keys)) or "no key"
            raise SignatureError(
                f"{source} is signed by key {manifest.key_id}, but this reader trusts {known}; "
                "copy the publisher's public key into the folder of trusted keys if you trust it"
            )
        try:
            signature = base64.b64decode(manifest.signature, validate=True)
            public.verify(signature, signed_bytes(manifest))
        except (InvalidSignature, binascii.Error, ValueError):
            raise SignatureError(
                f"the signature of {source} does not match its content: the manifest was changed "
                f"after key {manifest.key_id} signed it; publish again or roll back"
            ) from None


@dataclass(frozen=True, slots=True)
class Unverified:
    """Stands in for the trusted keys of a reader that checks digests but no signatures.

    Examples
    --------
    >>> from planning.artifacts import UNVERIFIED, Store
    >>> from planning.examples import demo_store
    >>> published, _ = demo_store("sifter")
    >>> Store(published.root, UNVERIFIED).load("ticks").plan.regions
    16
    """

    def verify(self, manifest: Manifest, source: str) -> None:
        """Accept any manifest."""

    unusable = ""

    def renewed(self) -> Self:
        """Return itself."""
        return self


UNVERIFIED = Unverified()
"""Pass this, and only on purpose, to read without checking signatures."""


def _trust(keys: UPath, public: Ed25519PublicKey) -> None:
    path = keys / TRUSTED / f"{key_id(public)}.pem"
    pem = public.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    files.make(path.parent)
    try:
        current = files.read(path)
    except FileNotFoundError:
        current = b""
    if current != pem:
        files.replace(path, pem)


def _pem(folder: UPath) -> list[UPath]:
    return [folder / name for name in files.names(folder) if name.endswith(".pem")]


def _read_private(path: UPath) -> Ed25519PrivateKey:
    data = files.read(path)
    _refuse_shared(path)
    key = _loaded(path, "private", partial(load_pem_private_key, data, None))
    if not isinstance(key, Ed25519PrivateKey):
        raise SignatureError(_not_a_key(path, "private", type(key).__name__))
    return key


def _read_public(path: UPath) -> Ed25519PublicKey:
    key = _loaded(path, "public", partial(load_pem_public_key, files.read(path)))
    if not isinstance(key, Ed25519PublicKey):
        raise SignatureError(_not_a_key(path, "public", type(key).__name__))
    return key


def _loaded(path: UPath, half: str, load: Callable[[], object]) -> object:
    try:
        return load()
    except (ValueError, TypeError, UnsupportedAlgorithm) as error:
        raise SignatureError(_not_a_key(path, half, error)) from None


def _refuse_shared(path: UPath) -> None:
    if not files.is_local(path):
        return
    mode = stat.S_IMODE(files.local(path).stat().st_mode)
    if mode & 0o077:
        raise StoreError(
            f"{path} is a private key that others may use (mode {mode:o}); run `chmod 600` on it, "
            "and replace it if someone may have copied it"
        )


def _not_a_key(path: UPath, half: str, got: object) -> str:
    return (
        f"{path} must be an Ed25519 {half} key in PEM form, got {' '.join(str(got).split())}; "
        "put the right key there or remove the file"
    )

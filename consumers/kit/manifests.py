"""Signed manifests and their payloads, and those that must be refused."""

from __future__ import annotations

import base64
import tempfile
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from consumers.kit.damage import text
from planning.artifacts import SigningKey, Store, TrustedKeys
from planning.artifacts.manifest import Manifest, Validity
from planning.examples import demo_plan

STREAM = "ticks"
CREATED = "2026-01-02T03:04:05Z"
SIGNERS = tuple(SigningKey(Ed25519PrivateKey.from_private_bytes(bytes([k] * 32))) for k in (1, 2))


def vectors() -> dict[str, Any]:
    """Return trusted keys, versions that are good, and others with what is wrong with them."""
    signer, stranger = SIGNERS
    with tempfile.TemporaryDirectory() as folder:
        store = Store(folder, TrustedKeys.of(*SIGNERS))
        plan = demo_plan("sifter")
        limited = Validity(not_after="2027-01-02T03:04:05Z", fallback="uniform")
        for by, validity in ((signer, Validity()), (signer, limited), (stranger, Validity())):
            store.publish(
                STREAM, plan, family="sifter", signer=by, created_at=CREATED, validity=validity,
                predicted=[(0.5, 1e-7)], parameters={"note": '"signature":"\u2028"'},
            )  # fmt: skip
        first, second, strange = (_version(store, number) for number in (1, 2, 3))
    data = base64.b64decode(first["manifest"])
    signature = data.rpartition(b'"signature":"')[2].partition(b'"')[0]
    refused = [
        {**strange, "why": "signed by a key that is not trusted"},
        {**first, "version": 2, "why": "another version"},
        {**first, "stream": "tocks", "why": "another stream"},
        {**first, "manifest": text(data[:-1]), "why": "cut"},
        {**first, "manifest": text(data + b" "), "why": "too long"},
        {**first, "manifest": text(data.replace(signature, b"")), "why": "not signed"},
        {**first, "manifest": text(data.replace(signature, b"A" * 86 + b"==")), "why": "forged"},
        {**first, "json": first["json"][4:] + first["json"][:4], "why": "payload changed"},
        {**first, "binary": text(base64.b64decode(first["binary"])[:-1]), "why": "payload cut"},
        {**first, "json": first["binary"], "why": "payload of the other encoding"},
    ]
    swapped = data.replace(b'"version":1', b'"version":2')
    refused.append({**first, "version": 2, "manifest": text(swapped), "why": "version changed"})
    for place in range(5, len(data), 41):
        changed = data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :]
        refused.append({**first, "manifest": text(changed), "why": f"byte {place} changed"})
    pem = signer.public.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    return {"trusted": [pem.decode()], "good": [first, second], "refused": refused}


def _version(store: Store, number: int) -> dict[str, Any]:
    manifest: Manifest = store.manifest(STREAM, number)
    return {
        "stream": STREAM,
        "version": number,
        "manifest": text(store.manifest_bytes(STREAM, number)),
        "json": text(store.payload_bytes(manifest, "json")),
        "binary": text(store.payload_bytes(manifest, "binary")),
    }

"""Acknowledgements: which node has which version in force, since when, with which counters."""

from __future__ import annotations

import re
from typing import Annotated

import msgspec
from msgspec import Meta, Struct

from planning.artifacts.manifest import Time
from planning.errors import ArtifactError, InvalidInput

NODE_PATTERN = r"^[A-Za-z0-9_][A-Za-z0-9._-]{0,127}$"


class Acknowledgement(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One node's word that it has swapped to a version.

    Examples
    --------
    >>> from planning.examples import demo_store
    >>> store, _ = demo_store("sifter")
    >>> store.acknowledge("ticks", Acknowledgement(
    ...     node="edge-7", version=1, at="2026-01-02T03:04:05Z", counters={"kept": 510}))
    >>> [(word.node, word.version) for word in store.acknowledgements("ticks")]
    [('edge-7', 1)]
    """

    node: Annotated[str, Meta(pattern=NODE_PATTERN)]
    version: Annotated[int, Meta(ge=1)]
    at: Time
    counters: dict[str, int | float | str]


def encode(acknowledgement: Acknowledgement) -> bytes:
    """Return the file's content."""
    return msgspec.json.encode(acknowledgement, order="sorted")


def decode(data: bytes, source: str) -> Acknowledgement:
    """Return the acknowledgement in ``data``, or raise :class:`ArtifactError`."""
    try:
        return msgspec.json.decode(data, type=Acknowledgement)
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
        raise ArtifactError(
            f"{source} is not an acknowledgement ({error}); remove it; the node writes a new "
            "one at its next swap"
        ) from None


def check_node(node: str) -> str:
    """Return a node's name if it can be a file name.

    >>> check_node("edge-7.example")
    'edge-7.example'
    """
    if not re.fullmatch(NODE_PATTERN, node):
        raise InvalidInput(
            f"node must be a name of at most 128 letters, digits, '.', '-' and '_', got {node!r}"
        )
    return node

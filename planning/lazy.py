"""Names of a package that are imported on first use, so that a source node loads no planner."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any

NOUNS = {"Plan": "plan", "Shedder": "shedder", "Statistics": "statistics"}
"""What every family offers by name, and the module that defines it."""


def load(package: str, name: str, rooms: Mapping[str, str] = NOUNS) -> Any:
    """Return what ``package`` offers as ``name``; ``rooms`` says which module defines it.

    >>> load("planning.sifter", "Plan").__module__
    'planning.sifter.plan'
    """
    if name not in rooms:
        raise AttributeError(f"module {package!r} has no attribute {name!r}")
    return getattr(import_module(f"{package}.{rooms[name]}"), name)

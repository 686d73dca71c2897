"""Whether a module or an object keeps what a protocol of the contract promises."""

from __future__ import annotations

import inspect
from typing import Any

ANYTHING = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)


def departures(thing: Any, protocol: type) -> list[str]:
    """Return what a protocol names and ``thing`` lacks, or takes by other parameters.

    Further parameters are no departure if they may be left out.
    """
    found = []
    who = getattr(thing, "__name__", type(thing).__name__)
    bases = [base for base in protocol.__mro__ if getattr(base, "_is_protocol", False)]
    for name, promise in {k: v for base in bases for k, v in vars(base).items()}.items():
        if name.startswith("_"):
            continue
        kept = getattr(thing, name, None)
        if kept is None:
            found.append(f"{who} has no {name}")
        elif callable(function := getattr(promise, "__func__", promise)):
            promised = list(inspect.signature(function).parameters.values())[1:]
            wanted = [p.name for p in promised if p.kind not in ANYTHING]
            own = list(inspect.signature(kept).parameters.values())
            names = [parameter.name for parameter in own]
            further = own[len(wanted) :]
            needed = [p for p in further if p.default is p.empty and p.kind not in ANYTHING]
            if names[: len(wanted)] != wanted or needed:
                found.append(f"{name} of {who} takes {names}, not {wanted}")
    return found

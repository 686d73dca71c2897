"""Every public name has a docstring, and an example that ``--doctest-modules`` runs."""

from __future__ import annotations

import doctest
import importlib
import inspect
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from planning import families

MODULES = [
    "planning.artifacts",
    "planning.runtime",
    *(f"planning.{name}" for name in families.NAMES),
    "benchmarks.datasets",
    "planning.demos",
    "planning.examples",
    "planning.families",
    "planning.home",
    "planning.pictures",
    "benchmarks.reproduction",
    "planning.samples",
    "planning.sampling",
    "planning.sections",
    "planning.streams",
    "planning.stages.batch_rules",
    "planning.stages.collect",
    "planning.stages.gate",
    "planning.stages.landing",
    "planning.stages.ledger",
    "planning.stages.local",
    "planning.stages.publish",
    "planning.stages.reevaluate",
    "planning.stages.run",
    "planning.stages.solve",
]


def public_names(module: ModuleType) -> list[str]:
    """Return ``__all__``, or else the functions and classes that the module defines."""
    return list(
        getattr(module, "__all__", None)
        or (
            name
            for name, thing in vars(module).items()
            if not name.startswith("_")
            and (inspect.isfunction(thing) or inspect.isclass(thing))
            and thing.__module__ == module.__name__
        )
    )


def docstrings(thing: Any) -> Iterator[str]:
    """Yield the docstring of a function, a class and its own methods, or a constant's type."""
    yield inspect.getdoc(thing) or ""
    if inspect.isclass(thing):
        for member in vars(thing).values():
            if inspect.isroutine(member) or isinstance(member, classmethod | property):
                yield inspect.getdoc(member) or ""


def runs(docstring: str) -> bool:
    """Whether a docstring holds an example that is not skipped."""
    examples = doctest.DocTestParser().get_examples(docstring)
    return any(not example.options.get(doctest.SKIP) for example in examples)


def is_promise(thing: Any) -> bool:
    """Whether a class is a protocol: nothing to run; ``test_families.py`` checks who keeps it.

    >>> is_promise(families.Plan), is_promise(families.Outcome)
    (True, False)
    """
    return bool(getattr(thing, "_is_protocol", False))


def is_described(name: str, thing: Any) -> bool:
    """Whether there is a docstring that somebody wrote; a dataclass makes one of its fields."""
    doc = inspect.getdoc(thing) or ""
    return bool(doc) and not doc.startswith(f"{name}(")


@pytest.mark.parametrize("path", MODULES)
def test_every_public_name_is_documented_with_an_example(path: str) -> None:
    module = importlib.import_module(path)
    names = public_names(module)
    assert names
    things = {name: getattr(module, name) for name in names}
    assert [n for n, thing in things.items() if not is_described(n, thing)] == []
    examined = {n: thing for n, thing in things.items() if not is_promise(thing)}
    assert [n for n, thing in examined.items() if not any(map(runs, docstrings(thing)))] == []


def test_what_is_not_documented_is_found() -> None:
    @dataclass
    class Bare:
        field: int

    def skipped() -> None:
        """Do nothing.

        >>> skipped()  # doctest: +SKIP
        """

    assert not is_described("Bare", Bare)
    assert not any(map(runs, docstrings(skipped)))
    assert any(map(runs, docstrings(families.Outcome)))


@pytest.mark.parametrize("page", ["runtime.md", "keys.md", "operate/metrics.md"])
def test_the_examples_of_a_page_run(page: str) -> None:
    failed, tried = doctest.testfile(
        str(Path(__file__).parents[1] / "docs" / page), module_relative=False
    )
    assert tried > 5
    assert not failed

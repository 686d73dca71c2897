"""Which code made a plan.

The digest covers every module that can change the plans of one family: all that its parameters,
statistics and planner, its Spark apps and the stages up to the candidate import. A figure, the
report or another family changes nothing in it.
"""

from __future__ import annotations

import ast
import hashlib
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable

from planning import families

PACKAGES = ("planning", "spark_apps", "expectations")
STAGES = ("planning.stages.collect", "planning.stages.local", "planning.stages.solve")
ROOMS = ("parameters", "statistics", "planner")
VALIDATION = ("spark_apps.validate", "expectations")
"""Suites are chosen by name in a definition, so all of them count."""


@cache
def code_digest(family: str) -> str:
    """Return the SHA-256 of the sources that can change a family's plans, wherever installed.

    >>> len(code_digest("sifter"))
    64
    """
    return digest_of(family, sources())


def digest_of(family: str, modules: Mapping[str, bytes]) -> str:
    """Return the SHA-256 over the names and contents of what a family's plans depend on."""
    digest = hashlib.sha256()
    for name in sorted(covered(family, modules)):
        source = modules[name].replace(b"\r\n", b"\n")
        digest.update(f"{name}\n{len(source)}\n".encode() + source)
    return digest.hexdigest()


def sources() -> dict[str, bytes]:
    """Return the source of every module of the packages that are installed, by its name."""
    modules: dict[str, bytes] = {}
    for package in PACKAGES:
        try:
            modules |= _sources(files(package), package)
        except ModuleNotFoundError:  # a machine that plans without Spark
            continue
    return modules


def covered(family: str, modules: Mapping[str, bytes]) -> set[str]:
    """Return the modules that can change a family's plans.

    >>> names = covered("sifter", sources())
    >>> "spark_apps.region_frequencies" in names, "spark_apps.match_histogram" in names
    (True, False)
    """
    room = f"planning.{family}"
    foreign = [f"planning.{name}" for name in families.NAMES if name != family]
    foreign.append("planning.artifacts")  # it stores plans and does not make them
    waiting = [*STAGES, *(f"{room}.{module}" for module in ROOMS)]
    waiting += [name for name in modules if _lies_in(name, *VALIDATION)]
    # A family's Spark apps are those that use its room.
    apps = [name for name in modules if name.startswith("spark_apps.")]
    waiting += [a for a in apps if any(_lies_in(used, room) for used in _imports(modules[a]))]
    reached: set[str] = set()
    while waiting:
        name = waiting.pop()
        if name in modules and name not in reached and not _lies_in(name, *foreign):
            reached.add(name)
            waiting += [name.rpartition(".")[0], *_imports(modules[name])]
    return reached


def _lies_in(name: str, *packages: str) -> bool:
    return any(name == package or name.startswith(f"{package}.") for package in packages)


@cache
def _imports(source: bytes) -> tuple[str, ...]:
    """Return what a module imports, at any depth; some of the names are not modules."""
    names: list[str] = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            names += (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            names += (node.module, *(f"{node.module}.{alias.name}" for alias in node.names))
    return tuple(names)


def _sources(folder: Traversable, name: str) -> dict[str, bytes]:
    modules: dict[str, bytes] = {}
    for child in folder.iterdir():
        stem, _, ending = child.name.partition(".")
        if child.is_dir():
            modules |= _sources(child, f"{name}.{child.name}")
        elif ending == "py":
            module = name if stem == "__init__" else f"{name}.{stem}"
            modules[module] = child.read_bytes()
    return modules

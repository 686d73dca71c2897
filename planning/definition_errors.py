"""From YAML text and pydantic's findings to problems with file, line and field."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml
from pydantic import ValidationError

from planning.errors import DefinitionError, Problem

Lines = dict[tuple[str | int, ...], int]
SHOWN_CHARACTERS = 60


def read_yaml(path: Path) -> tuple[Any, Lines]:
    """Return the document and the line of every key and item in it."""
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        allowed = "a readable file"
        raise DefinitionError(
            [Problem(str(path), 1, "file", allowed, error.strerror or str(error))]
        ) from None
    except UnicodeDecodeError as error:
        raise DefinitionError([Problem(str(path), 1, "file", "UTF-8 text", str(error))]) from None
    try:
        root = yaml.compose(text, Loader=yaml.SafeLoader)
        document = yaml.safe_load(text)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = mark.line + 1 if mark is not None else 1
        given = getattr(error, "problem", None) or str(error)
        raise DefinitionError([Problem(str(path), line, "file", "well-formed YAML", given)]) from (
            None
        )
    lines: Lines = {}
    duplicates: list[Problem] = []
    if root is not None:
        _collect_lines(root, (), lines, duplicates, str(path))
    if not isinstance(document, dict):
        given = type(document).__name__
        raise DefinitionError([Problem(str(path), 1, "file", "a mapping of fields", given)])
    if duplicates:
        raise DefinitionError(duplicates)
    return document, lines


def _collect_lines(
    node: yaml.Node, path: tuple[str | int, ...], lines: Lines, twice: list[Problem], file: str
) -> None:
    lines.setdefault(path, node.start_mark.line + 1)
    if isinstance(node, yaml.MappingNode):
        seen: set[str] = set()
        for key, value in node.value:
            line = key.start_mark.line + 1
            here = (*path, key.value)
            if key.value in seen:
                twice.append(Problem(file, line, field_name(here), "given once", "it again"))
            seen.add(key.value)
            lines[here] = line
            _collect_lines(value, here, lines, twice, file)
    elif isinstance(node, yaml.SequenceNode):
        for index, value in enumerate(node.value):
            _collect_lines(value, (*path, index), lines, twice, file)


def field_name(path: tuple[str | int, ...]) -> str:
    """Return a path as people write it.

    >>> field_name(("queries", "inline", 2, "weight"))
    'queries.inline[2].weight'
    """
    name = ""
    for step in path:
        name += f"[{step}]" if isinstance(step, int) else f".{step}" if name else str(step)
    return name


def problems_of(
    error: ValidationError, file: str, lines: Lines, below: tuple[str | int, ...] = ()
) -> list[Problem]:
    """Return one problem per finding; ``below`` is the path of the part that was checked."""
    found = error.errors(include_url=False)
    return [_problem(dict(item), (*below, *item["loc"]), file, lines) for item in found]


def _problem(
    item: dict[str, Any], path: tuple[str | int, ...], file: str, lines: Lines
) -> Problem:
    line = next((lines[path[:n]] for n in range(len(path), -1, -1) if path[:n] in lines), 1)
    kind, message = item["type"], item["msg"]
    field = field_name(path) or "definition"
    if kind == "missing":
        return Problem(file, line, field, "present", "nothing")
    if kind == "extra_forbidden":
        return Problem(
            file, line, field, "a known field", _shown(item["input"]),
            remedy="remove it or correct its spelling",
        )
    allowed = message.removeprefix("Value error, ").removeprefix("Input should be ")
    allowed, _, given = allowed.partition(", got ")
    return Problem(file, line, field, allowed, given or _shown(item["input"]))


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= SHOWN_CHARACTERS else text[: SHOWN_CHARACTERS - 1] + "…"

"""From YAML text and pydantic's findings to problems with file, line and field."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, get_args

import yaml
from pydantic import BaseModel, ValidationError

from planning.errors import DefinitionError, Mistake, Problem

Place = tuple[str | int, ...]
Lines = dict[Place, int]
SHOWN_CHARACTERS = 60
# What pydantic's findings mean to somebody who writes YAML.
IN_YAML = {
    "bool_parsing": "true or false",
    "bool_type": "true or false",
    "dict_type": "a mapping",
    "float_parsing": "a number",
    "float_type": "a number",
    "finite_number": "a finite number",
    "greater_than": "greater than {gt}",
    "greater_than_equal": "greater than or equal to {ge}",
    "int_from_float": "a whole number",
    "int_parsing": "a whole number",
    "int_type": "a whole number",
    "less_than": "less than {lt}",
    "less_than_equal": "less than or equal to {le}",
    "list_type": "a list",
    "literal_error": "{expected}",
    "string_too_short": "a text of at least {min_length} character(s)",
    "string_type": "a text",
    "too_long": "a list of at most {max_length} item(s)",
    "too_short": "a list of at least {min_length} item(s)",
    "tuple_type": "a list",
}


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
    error: ValidationError,
    file: str,
    lines: Lines,
    model: type[BaseModel],
    below: Place = (),
    elsewhere: Mapping[str, str] | None = None,
) -> list[Problem]:
    """Return one problem per finding.

    Parameters
    ----------
    error, file, lines
        The findings, and where the checked text came from.
    model
        What was checked; an unknown field is compared with its fields.
    below
        Path of the part that was checked.
    elsewhere
        Fields that are known in another section, and that section's name.
    """
    problems = []
    for item in error.errors(include_url=False):
        place: Place = (*below, *item["loc"])
        kind, context = item["type"], item.get("ctx", {})
        raised = context.get("error")
        if isinstance(raised, Mistake):
            problems.append(problem_of(raised, file, lines, below=place))
            continue
        allowed, got, remedy = "present", _shown(item["input"]), ""
        if kind == "missing":
            got = "nothing"
        elif kind == "extra_forbidden":
            allowed = "a known field"
            remedy = _spelling(str(place[-1]), _fields(model, item["loc"]), elsewhere or {})
        elif kind in IN_YAML:
            allowed = IN_YAML[kind].format(**context)
        elif raised is not None:
            allowed, got = "valid", str(raised)
        else:
            allowed = item["msg"].removeprefix("Input should be ")
        field = field_name(place) or "definition"
        problems.append(Problem(file, _line(lines, place), field, allowed, got, remedy))
    return problems


def problem_of(mistake: Mistake, file: str, lines: Lines, below: Place = ()) -> Problem:
    """Return the problem; its field is the place, plus what people call it if that differs."""
    place = (*below, *mistake.at)
    where, called = field_name(place), mistake.field
    if not where or where == called or where.endswith(f".{called}"):
        field = where or called
    else:
        field = f"{where}: {called}"
    return Problem(
        file, _line(lines, place), field, mistake.allowed, mistake.got, mistake.remedy, mistake.verb
    )


def _line(lines: Lines, place: Place) -> int:
    """Return the line of the innermost part of ``place`` that the text has."""
    return next((lines[place[:n]] for n in range(len(place), -1, -1) if place[:n] in lines), 1)


def _fields(model: type[BaseModel] | None, place: Place) -> list[str]:
    """Return the fields that a model knows at the level of the last step of ``place``."""
    for step in place[:-1]:
        if model is None:
            return []
        if isinstance(step, str):
            field = model.model_fields.get(step)
            model = _section(field.annotation) if field is not None else None
    known = model.model_fields if model is not None else {}
    return [name for name, field in known.items() if not field.exclude]


def _section(annotation: Any) -> type[BaseModel] | None:
    """Return the model inside an annotation such as ``tuple[Query, ...]``."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    inner = (_section(part) for part in get_args(annotation))
    return next((model for model in inner if model is not None), None)


def _spelling(name: str, known: list[str], elsewhere: Mapping[str, str]) -> str:
    if name in elsewhere:
        return f"it belongs below {elsewhere[name]}"
    close = difflib.get_close_matches(name, known, n=1)
    if close:
        return f"did you mean {close[0]}? Otherwise remove it"
    return f"remove it; known here: {', '.join(known)}" if known else "remove it"


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= SHOWN_CHARACTERS else text[: SHOWN_CHARACTERS - 1] + "…"

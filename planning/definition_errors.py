"""From YAML text and pydantic's findings to problems with file, line and field."""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, get_args

import yaml
from pydantic import BaseModel, ValidationError

from planning.errors import DefinitionError, Problem

Place = tuple[str | int, ...]
Lines = dict[Place, int]
SHOWN_CHARACTERS = 60
# How checks that see the whole definition name the field they found wrong.
NAMED_FIELD = re.compile(r"((?:samples|queries|parameters|gate)\.[\w.\[\]]+):? (.+)", re.DOTALL)
SENTENCE = re.compile(r"(.+?) must (\w+) (.+)", re.DOTALL)
INSTEAD_OF_BE = {"be": "", "hold": "a condition with ", "name": "one of ", "have": "one with "}
# What pydantic's findings mean to somebody who writes YAML.
IN_YAML = {
    "bool_parsing": "true or false",
    "bool_type": "true or false",
    "dict_type": "a mapping",
    "float_parsing": "a number",
    "float_type": "a number",
    "int_from_float": "a whole number",
    "int_parsing": "a whole number",
    "int_type": "a whole number",
    "list_type": "a list",
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
    labels: Mapping[str, Place] | None = None,
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
    labels
        Paths of parts that messages call by a name of their own, such as ``query cheap``.
    elsewhere
        Fields that are known in another section, and its name.
    """
    found = []
    for item in error.errors(include_url=False):
        path = (*below, *item["loc"])
        if item["type"] == "missing":
            problem = _at(lines, file, path, "present", "nothing")
        elif item["type"] == "extra_forbidden":
            remedy = _spelling(str(path[-1]), _fields(model, item["loc"]), elsewhere or {})
            shown = _shown(item["input"])
            problem = _at(lines, file, path, "a known field", shown, remedy=remedy)
        else:
            problem = _value_problem(dict(item), path, file, lines, labels or {})
        found.append(problem)
    return found


def _value_problem(
    item: dict[str, Any], path: Place, file: str, lines: Lines, labels: Mapping[str, Place]
) -> Problem:
    if item["type"] in IN_YAML:
        allowed = IN_YAML[item["type"]].format(**item.get("ctx", {}))
        return _at(lines, file, path, allowed, _shown(item["input"]))
    message = item["msg"].removeprefix("Value error, ").removeprefix("Input should be ")
    allowed, got, given = message.partition(", got ")
    if not got:
        given = "something else" if not path else _shown(item["input"])
    if not path and (named := NAMED_FIELD.fullmatch(allowed)):
        return _at(lines, file, _path(named[1]), named[2], given)
    if sentence := SENTENCE.fullmatch(allowed):
        what, verb, rest = sentence.groups()
        exact = labels.get(what)
        place = exact or next((labels[a] for a in labels if what.startswith(f"{a}:")), path)
        name = f"{field_name(place)}: {what}" if place else what
        if verb in INSTEAD_OF_BE:
            verb, rest = "be", INSTEAD_OF_BE[verb] + rest
        return _at(lines, file, place, rest, given, name=name, verb=verb)
    return _at(lines, file, path, allowed, given)


def _at(
    lines: Lines,
    file: str,
    path: Place,
    allowed: str,
    given: str,
    *,
    name: str = "",
    remedy: str = "",
    verb: str = "be",
) -> Problem:
    """Return a problem on the line of the innermost part of ``path`` that the text has."""
    line = next((lines[path[:n]] for n in range(len(path), -1, -1) if path[:n] in lines), 1)
    field = name or field_name(path) or "definition"
    return Problem(file, line, field, allowed, given, remedy=remedy, verb=verb)


def labels_of(document: Mapping[str, Any]) -> dict[str, Place]:
    """Return where queries, pins and attributes lie, by the names that messages use.

    >>> labels_of({"queries": {"inline": [{"name": "cheap"}, {}]}})
    {'query cheap': ('queries', 'inline', 0), 'query 1': ('queries', 'inline', 1)}
    """
    labels: dict[str, Place] = {}
    attributes = document.get("attributes")
    for i, attribute in enumerate(attributes if isinstance(attributes, list | tuple) else ()):
        if isinstance(attribute, dict):
            labels[f"attribute {attribute.get('name')}"] = ("attributes", i)
    for i, query in enumerate(_items(document, "queries", "inline")):
        name = query.get("name") if isinstance(query, dict) else None
        labels[f"query {name or i}"] = ("queries", "inline", i)
    for i, _ in enumerate(_items(document, "parameters", "pins")):
        labels[f"pin {i}"] = ("parameters", "pins", i)
    return labels


def _items(document: Mapping[str, Any], section: str, field: str) -> Sequence[Any]:
    """Return a list of the unchecked document; nothing where it is no list."""
    part = document.get(section)
    items = part.get(field) if isinstance(part, dict) else None
    return items if isinstance(items, list | tuple) else ()


def _path(field: str) -> Place:
    """Return the path of a field as people write it; the inverse of :func:`field_name`.

    >>> _path("queries.inline[2].weight")
    ('queries', 'inline', 2, 'weight')
    """
    steps = re.findall(r"\w+", field)
    return tuple(int(step) if step.isdigit() else step for step in steps)


def _fields(model: type[BaseModel] | None, place: Place) -> list[str]:
    """Return the fields that a model knows beside the last step of ``place``."""
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
    return next((found for arg in get_args(annotation) if (found := _section(arg))), None)


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

"""Stream definitions: the user's YAML, parsed into typed objects.

A definition says what a stream looks like, where its monitoring samples and queries come from,
how it is planned, and when. ``load`` returns a checked :class:`StreamDefinition` or raises one
:class:`~planning.errors.DefinitionError` that lists every mistake with file and line.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any, Self

from pydantic import (
    BaseModel,
    Field,
    SerializeAsAny,
    ValidationError,
    field_validator,
    model_validator,
)

from planning import families
from planning.definition_errors import Lines, labels_of, problems_of, read_yaml
from planning.errors import DefinitionError, Problem
from planning.sections import Attribute, Gate, Queries, Retention, Samples, Section, Validity

NAME = re.compile(r"[a-z][a-z0-9_-]{0,62}")
CRON_FIELDS = 5
PRESETS = ("@once", "@hourly", "@daily", "@weekly", "@monthly")


class StreamDefinition(Section):
    """A stream, as its owner describes it.

    Examples
    --------
    >>> definition = parse({
    ...     "stream": "ticks", "family": "sifter",
    ...     "attributes": [{"name": "price", "domain": [0, 100]}],
    ...     "queries": {"inline": [{"name": "cheap", "ranges": {"price": [0, 30]}}]},
    ... }, "ticks.yaml")
    >>> definition.landing, definition.with_parameters({"regions": 8}).parameters.regions
    ('landing/ticks', 8)
    """

    stream: str
    family: str
    description: str = ""
    owner: str = "headgate"
    tags: tuple[str, ...] = ()
    demo: bool = False
    attributes: tuple[Attribute, ...] = Field(min_length=1)
    samples: Samples = Field(default_factory=Samples)
    queries: Queries = Field(default_factory=Queries)
    parameters: SerializeAsAny[BaseModel] = Field(default_factory=Section)
    schedule: str | None = None
    gate: Gate = Field(default_factory=Gate)
    validity: Validity = Field(default_factory=Validity)
    retention: Retention = Field(default_factory=Retention)
    source: str = Field(default="", exclude=True)

    @field_validator("stream")
    @classmethod
    def _name_is_a_path_and_an_id(cls, name: str) -> str:
        if not NAME.fullmatch(name):
            raise ValueError(
                "a name of lower-case letters, digits, - and _, starting with a letter"
            )
        return name

    @field_validator("family")
    @classmethod
    def _family_exists(cls, name: str) -> str:
        if name not in families.NAMES:
            raise ValueError(f"one of {', '.join(families.NAMES)}")
        return name

    @field_validator("attributes")
    @classmethod
    def _names_differ(cls, attributes: tuple[Attribute, ...]) -> tuple[Attribute, ...]:
        twice = [n for n, c in Counter(a.name for a in attributes).items() if c > 1]
        if twice:
            raise ValueError(f"attributes with distinct names, got {', '.join(twice)} twice")
        return attributes

    @field_validator("schedule")
    @classmethod
    def _cron(cls, schedule: str | None) -> str | None:
        from croniter import croniter

        if schedule is None or schedule in PRESETS:
            return schedule
        if len(schedule.split()) == CRON_FIELDS and croniter.is_valid(schedule):
            return schedule
        raise ValueError(f"a cron expression of five fields, one of {', '.join(PRESETS)}, or null")

    @model_validator(mode="after")
    def _references_exist(self) -> Self:
        self._check_queries()
        check = getattr(self.parameters, "check_definition", None)
        if check is not None:
            check(self)
        unknown = sorted(set(self.gate.holdout_by) - set(self.sample_columns))
        if unknown:
            raise ValueError(
                f"gate.holdout_by columns of the samples ({', '.join(self.sample_columns)}), "
                f"got {', '.join(unknown)}"
            )
        return self

    def _check_queries(self) -> None:
        if self.queries != Queries() and not getattr(self.parameters, "uses_queries", True):
            field = "file" if self.queries.file else "inline"
            given = self.queries.file or len(self.queries.inline)
            raise ValueError(
                f"queries.{field} absent: family {self.family} plans without queries, got {given}"
            )
        bounds = {attribute.name: attribute.bounds for attribute in self.attributes}
        for i, query in enumerate(self.queries.inline):
            unknown = sorted(set(query.ranges) - set(bounds))
            if unknown:
                raise ValueError(
                    f"queries.inline[{i}].ranges ranges of the attributes {', '.join(bounds)}, "
                    f"got {', '.join(unknown)}"
                )
            for name, (low, high) in query.ranges.items():
                least, most = bounds[name]
                if high < least or low > most:
                    raise ValueError(
                        f"queries.inline[{i}].ranges.{name} a range that meets the domain "
                        f"[{least:g}, {most:g}], got [{low:g}, {high:g}]"
                    )

    @cached_property
    def attribute_names(self) -> tuple[str, ...]:
        """Return the names of the attributes, in the order of the definition."""
        return tuple(attribute.name for attribute in self.attributes)

    @cached_property
    def sample_columns(self) -> tuple[str, ...]:
        """Return the columns of a sample: the attributes, and the time if there is one."""
        time_column = self.samples.time_column
        extra = (time_column,) if time_column and time_column not in self.attribute_names else ()
        return (*self.attribute_names, *extra)

    @cached_property
    def nullable(self) -> frozenset[str]:
        """Return the attributes that may be null; most families need every value."""
        ask = getattr(self.parameters, "optional_attributes", None)
        return ask(self.attribute_names) if ask is not None else frozenset()

    @property
    def landing(self) -> str:
        """Landing place of the samples; below the home unless the definition names another."""
        return self.samples.landing or f"landing/{self.stream}"

    def with_parameters(self, changes: dict[str, Any]) -> StreamDefinition:
        """Return the definition with some family parameters replaced, checked anew."""
        document = self.model_dump(mode="json")
        document["parameters"] = {**document["parameters"], **changes}
        try:
            return parse(document, self.source or self.stream)
        except DefinitionError as error:
            # The mistake is in the changes: the file and its lines are not to blame.
            where = f"overrides of stream {self.stream}"
            problems = [replace(problem, file=where, line=0) for problem in error.problems]
            raise DefinitionError(problems) from None


def parse(document: Any, file: str, lines: Lines | None = None) -> StreamDefinition:
    """Check an already read document; raise :class:`DefinitionError` with every mistake.

    >>> parse({"stream": "T", "family": "sieve"}, "t.yaml")
    Traceback (most recent call last):
    ...
    planning.errors.DefinitionError: t.yaml:1: stream must be a name of lower-case letters, \
digits, - and _, starting with a letter, got 'T'
    t.yaml:1: family must be one of sifter, lira, attributes, joins, fit, got 'sieve'
    t.yaml:1: attributes must be present, got nothing
    """
    lines = lines or {}
    problems: list[Problem] = []
    parameters: BaseModel = Section()
    elsewhere: dict[str, str] = {}
    if document.get("family") in families.NAMES:
        model = families.family(document["family"]).room("parameters").Parameters
        elsewhere = dict.fromkeys(model.model_fields, "parameters")
        document = _with_defaults(document, getattr(model, "definition_defaults", {}))
        try:
            parameters = model.model_validate(document.get("parameters") or {})
        except ValidationError as error:
            problems += problems_of(error, file, lines, model, below=("parameters",))
            parameters = Section()
    try:
        definition = StreamDefinition.model_validate({**document, "parameters": parameters})
    except ValidationError as error:
        problems += problems_of(
            error, file, lines, StreamDefinition, labels=labels_of(document), elsewhere=elsewhere
        )
    if problems:
        raise DefinitionError(sorted(problems, key=lambda problem: problem.line))
    return definition.model_copy(update={"source": file})


def _with_defaults(
    document: dict[str, Any], defaults: Mapping[str, Mapping[str, Any]]
) -> dict[str, Any]:
    """Return the document with a family's defaults where a section does not say otherwise."""
    filled = dict(document)
    for section, values in defaults.items():
        given = document.get(section) or {}
        if isinstance(given, dict):
            filled[section] = {**values, **given}
    return filled


def load(path: str | Path) -> StreamDefinition:
    """Read and check one YAML file.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder) / "ticks.yaml"
    ...     _ = path.write_text("{stream: ticks, family: sifter, attributes: [{name: price, "
    ...                         "domain: [0, 100]}]}")
    ...     load(path).attribute_names
    ('price',)
    """
    document, lines = read_yaml(Path(path))
    return parse(document, str(path), lines)


def load_folder(folder: str | Path) -> tuple[list[StreamDefinition], list[DefinitionError]]:
    """Read a folder's ``*.yaml`` and ``*.yml``: the good definitions, the errors of the others.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = (Path(folder) / "a.yaml").write_text(
    ...         "{stream: a, family: sifter, attributes: [{name: price, domain: [0, 100]}]}")
    ...     _ = (Path(folder) / "b.yaml").write_text("{stream: b, family: sifter}")
    ...     good, bad = load_folder(folder)
    >>> [d.stream for d in good], [error.problems[0].field for error in bad]
    (['a'], ['attributes'])
    """
    good: list[StreamDefinition] = []
    bad: list[DefinitionError] = []
    for path in sorted(Path(folder).glob("*.y*ml")):
        try:
            definition = load(path)
        except DefinitionError as error:
            bad.append(error)
            continue
        first = next((d for d in good if d.stream == definition.stream), None)
        if first is None:
            good.append(definition)
        else:
            allowed = f"a name of its own ({first.source} has this one)"
            bad.append(
                DefinitionError([Problem(str(path), 1, "stream", allowed, definition.stream)])
            )
    return good, bad

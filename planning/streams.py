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
from typing import Any, Literal, Self, TypeVar, cast

from pydantic import Field, SerializeAsAny, ValidationError, field_validator, model_validator

from planning import families
from planning.definition_errors import Lines, problems_of, read_yaml
from planning.errors import DefinitionError, InvalidInput, Mistake, Problem
from planning.families import Definition
from planning.sections import (
    Attribute,
    FamilyParameters,
    Gate,
    Queries,
    Retention,
    Samples,
    Section,
    Validity,
    refuse_unplanned,
)

OfFamily = TypeVar("OfFamily", bound=FamilyParameters)
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
    parameters: SerializeAsAny[FamilyParameters] = Field(default_factory=FamilyParameters)
    schedule: str | None = None
    gate: Gate = Field(default_factory=Gate)
    validity: Validity = Field(default_factory=Validity)
    retention: Retention = Field(default_factory=Retention)
    schema_version: Literal[1, 2] = Field(
        2, description="Schema of the manifests: 1 while some nodes still run release 0.1."
    )
    source: str = Field(default="", exclude=True)

    @field_validator("stream")
    @classmethod
    def _name_is_a_path_and_an_id(cls, name: str) -> str:
        if not NAME.fullmatch(name):
            allowed = "a name of lower-case letters, digits, - and _, starting with a letter"
            raise Mistake("stream", allowed, repr(name))
        return name

    @field_validator("family")
    @classmethod
    def _family_exists(cls, name: str) -> str:
        if name not in families.NAMES:
            raise Mistake("family", f"one of {', '.join(families.NAMES)}", repr(name))
        return name

    @field_validator("attributes")
    @classmethod
    def _names_differ(cls, attributes: tuple[Attribute, ...]) -> tuple[Attribute, ...]:
        twice = [n for n, c in Counter(a.name for a in attributes).items() if c > 1]
        if twice:
            raise Mistake("attributes", "distinct names", f"{', '.join(twice)} twice", verb="have")
        return attributes

    @field_validator("schedule")
    @classmethod
    def _cron(cls, schedule: str | None) -> str | None:
        from croniter import croniter

        if schedule is None or schedule in PRESETS:
            return schedule
        if len(schedule.split()) == CRON_FIELDS and croniter.is_valid(schedule):
            return schedule
        allowed = f"a cron expression of five fields, one of {', '.join(PRESETS)}, or null"
        raise Mistake("schedule", allowed, repr(schedule))

    @model_validator(mode="after")
    def _references_exist(self) -> Self:
        self._check_queries()
        for i, attribute in enumerate(self.attributes):
            if attribute.open and not self.parameters.open_domains:
                allowed = f"a number or a category with its values: family {self.family} needs them"
                got, at = f"{attribute.type} without", ("attributes", i, "values")
                raise Mistake(f"attributes[{i}].values", allowed, got, at=at)
        self.parameters.check_definition(self)
        unknown = sorted(set(self.gate.holdout_by) - set(self.sample_columns))
        if unknown:
            allowed = f"columns of the samples ({', '.join(self.sample_columns)})"
            raise Mistake(
                "gate.holdout_by", allowed, ", ".join(unknown), at=("gate", "holdout_by")
            )
        return self

    def _check_queries(self) -> None:
        given = self.queries.model_dump(exclude_defaults=True)
        planned, tenants = self.parameters.query_terms, sorted({"tenants", "tenant_gap"} & {*given})
        if given and not self.parameters.uses_queries:
            field = next(iter(given))
            got = str(len(given[field]) if field == "inline" else given[field])
            allowed = f"absent: family {self.family} plans without queries"
            raise Mistake(f"queries.{field}", allowed, got, at=("queries", field))
        if tenants and "tenant" not in planned:
            allowed = f"absent: family {self.family} plans without tenants"
            raise Mistake(tenants[0], allowed, str(given[tenants[0]]), at=("queries", tenants[0]))
        bounds = {attribute.name: attribute.bounds for attribute in self.attributes}
        for i, query in enumerate(self.queries.inline):
            refuse_unplanned("", given["inline"][i], self, ("queries", "inline", i))
            at = ("queries", "inline", i, "ranges")
            unknown = sorted(set(query.ranges) - set(bounds))
            if unknown:
                allowed = f"ranges of the attributes {', '.join(bounds)}"
                raise Mistake("ranges", allowed, ", ".join(unknown), at=at)
            for name, (low, high) in query.ranges.items():
                least, most = bounds[name]
                if high < least or low > most:
                    allowed = f"a range that meets the domain [{least:g}, {most:g}]"
                    raise Mistake(name, allowed, f"[{low:g}, {high:g}]", at=(*at, name))
        if self.queries.file is None:
            self.queries.check_tenants(query.tenant for query in self.queries.inline)

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
        return self.parameters.optional_attributes(self.attribute_names)

    @property
    def landing(self) -> str:
        """Landing place of the samples; below the home unless the definition names another."""
        return self.samples.landing or f"landing/{self.stream}"

    def of(self, parameters: type[OfFamily]) -> Definition[OfFamily]:
        """Return the definition typed with a family's parameters, which it must have."""
        definition: Definition[FamilyParameters] = self
        if not isinstance(self.parameters, parameters):
            raise InvalidInput(
                f"stream {self.stream} must be of the family of {parameters.__module__}, got "
                f"{self.family}"
            )
        return cast("Definition[OfFamily]", definition)

    def with_parameters(self, changes: dict[str, Any]) -> StreamDefinition:
        """Return the definition with some family parameters replaced, and checked again."""
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
    """Check a document that has been read; raise :class:`DefinitionError` with every mistake.

    >>> parse({"stream": "T", "family": "sieve"}, "t.yaml")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ...
    planning.errors.DefinitionError: t.yaml:1: stream must be a name of lower-case letters, \
digits, - and _, starting with a letter, got 'T'
    t.yaml:1: family must be one of sifter, ..., got 'sieve'
    t.yaml:1: attributes must be present, got nothing
    """
    lines = lines or {}
    problems: list[Problem] = []
    parameters = FamilyParameters()
    elsewhere: dict[str, str] = {}
    if document.get("family") in families.NAMES:
        model = families.family(document["family"]).room("parameters").Parameters
        elsewhere = dict.fromkeys(model.model_fields, "parameters")
        document = _with_defaults(document, model.definition_defaults)
        try:
            parameters = model.model_validate(document.get("parameters") or {})
        except ValidationError as error:
            problems += problems_of(error, file, lines, model, below=("parameters",))
    try:
        definition = StreamDefinition.model_validate({**document, "parameters": parameters})
    except ValidationError as error:
        problems += problems_of(error, file, lines, StreamDefinition, elsewhere=elsewhere)
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
    """Read a folder's ``*.yaml`` and ``*.yml``: the good definitions, and the errors of the others.

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

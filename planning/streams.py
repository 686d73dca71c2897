"""Stream definitions: the user's YAML, parsed into typed objects.

A definition says what a stream looks like, where its monitoring samples and queries come from,
how it is planned, and when. ``load`` returns a checked :class:`StreamDefinition` or raises one
:class:`~planning.errors.DefinitionError` that lists every mistake with file and line.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    SerializeAsAny,
    ValidationError,
    field_validator,
    model_validator,
)

from planning import families
from planning.definition_errors import Lines, labels_of, problems_of, read_yaml
from planning.errors import DefinitionError, Problem

NAME = re.compile(r"[a-z][a-z0-9_-]{0,62}")
CRON_FIELDS = 5
PRESETS = ("@once", "@hourly", "@daily", "@weekly", "@monthly")
Fraction = Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]


class Section(BaseModel):
    """Base of every part of a definition: immutable, and a typing error is an error.

    Examples
    --------
    >>> Gate(lodas=[0.5])  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ...
    pydantic_core._pydantic_core.ValidationError: 1 validation error for Gate
    lodas
      Extra inputs are not permitted ...
    """

    model_config = ConfigDict(frozen=True, extra="forbid")


class Attribute(Section):
    """One attribute of the stream's tuples, with its domain.

    Examples
    --------
    >>> Attribute(name="price", domain=(0, 100), unit="EUR").bounds
    (0.0, 100.0)
    >>> Attribute(name="side", type="category", values=("buy", "sell")).bounds
    (0.0, 2.0)
    """

    name: str = Field(min_length=1)
    type: Literal["float", "int", "category"] = "float"
    domain: tuple[float, float] | None = None
    values: tuple[str, ...] = ()
    unit: str = ""
    description: str = ""

    @model_validator(mode="after")
    def _domain_fits_type(self) -> Self:
        if self.type == "category":
            if len(self.values) < 2 or len(set(self.values)) != len(self.values):
                raise ValueError(
                    f"a category attribute with at least two distinct values, "
                    f"got values: {list(self.values)}"
                )
            return self
        if self.domain is None:
            raise ValueError("an attribute with domain: [low, high], got none")
        low, high = self.domain
        if not (math.isfinite(low) and math.isfinite(high) and low < high):
            raise ValueError(f"an attribute with finite domain low < high, got [{low:g}, {high:g}]")
        return self

    @property
    def bounds(self) -> tuple[float, float]:
        """Return [low, high]; a category counts as its codes 0 … k − 1, each one unit wide."""
        return self.domain if self.domain is not None else (0.0, float(len(self.values)))


class Samples(Section):
    """Where monitoring samples come from, and what makes a batch usable.

    Examples
    --------
    >>> samples = Samples(landing="s3://market/ticks", format="jsonl", min_rows=5000)
    >>> samples.format, samples.min_rows, samples.max_quarantined
    ('jsonl', 5000, 0.1)
    """

    landing: str = Field("", description="Folder or URL; empty: landing/<stream> in the home.")
    format: Literal["parquet", "jsonl"] = Field("parquet", description="Format of the files.")
    time_column: str | None = Field(None, description="A further column with a row's time.")
    settle_s: float = Field(5.0, ge=0, description="JSON lines count so long after the last write.")
    expectations: str = Field("tuples", description="Suite that judges the rows on Spark.")
    min_rows: int = Field(100, ge=1, description="Fewer clean rows reject the batch.")
    max_quarantined: Fraction = Field(0.1, description="A larger share of bad rows rejects it.")
    max_age_s: float | None = Field(None, gt=0, description="An older newest row rejects it.")


class Query(Section):
    """One continual query: ranges per attribute (absent: everything) or a SQL WHERE text.

    Examples
    --------
    >>> cheap = Query(name="cheap", ranges={"price": (0, 30)}, weight=2)
    >>> large = Query(name="large", where="volume >= 600 AND price < 50")
    >>> Queries(inline=(cheap, large)).inline[0].ranges
    {'price': (0.0, 30.0)}
    """

    name: str = ""
    ranges: dict[str, tuple[float, float]] = Field(default_factory=dict)
    where: str | None = None
    weight: float = Field(default=1.0, ge=0, allow_inf_nan=False)
    qos_slope: float = Field(default=1.0, ge=0, allow_inf_nan=False)

    @model_validator(mode="after")
    def _one_form(self) -> Self:
        if self.where is not None and self.ranges:
            raise ValueError("a query with either ranges or where, got both")
        for attribute, (low, high) in self.ranges.items():
            if not low <= high:
                raise ValueError(f"a range low <= high on {attribute}, got [{low:g}, {high:g}]")
        return self


class Queries(Section):
    """The stream's queries: written here, or read from a file of JSON lines or Parquet.

    Examples
    --------
    >>> Queries(file="ticks.queries.jsonl").inline
    ()
    >>> [q.weight for q in Queries(inline=[{"ranges": {"price": [0, 30]}, "weight": 2}]).inline]
    [2.0]
    """

    file: str | None = Field(None, description="Beside the definition, below the home, or a URL.")
    inline: tuple[Query, ...] = Field((), description="Queries written in the definition.")


class Gate(Section):
    """When a new plan may replace the published one.

    Examples
    --------
    >>> strict = Gate(loads=(0.2, 0.5, 0.8), holdout=0.3, tolerance=0.0)
    >>> strict.loads, Gate().loads
    ((0.2, 0.5, 0.8), (0.3, 0.5, 0.7))
    """

    loads: tuple[Annotated[float, Field(gt=0, le=1)], ...] = Field(
        (0.3, 0.5, 0.7), description="Loads at which a new plan is tried."
    )
    holdout: float = Field(0.25, gt=0, lt=1, description="Share of the rows kept for the trial.")
    holdout_by: tuple[str, ...] = Field(
        (), description="Rows that agree in these columns are held out together; empty: any row."
    )
    tolerance: float = Field(
        0.02, ge=0, allow_inf_nan=False, description="How much worse a new plan may be."
    )

    @field_validator("loads")
    @classmethod
    def _some_loads(cls, loads: tuple[float, ...]) -> tuple[float, ...]:
        if not loads:
            raise ValueError("at least one load in (0, 1]")
        return loads


class Validity(Section):
    """How long a plan may be used, and what a consumer does once it has expired.

    Examples
    --------
    >>> Validity(valid_for_s=3600, fallback="pass")
    Validity(valid_for_s=3600.0, fallback='pass')
    """

    valid_for_s: float | None = Field(None, gt=0, description="Empty: until it is replaced.")
    fallback: Literal["keep", "pass", "uniform"] = Field(
        "uniform", description="Afterwards: keep the plan, pass everything, or drop evenly."
    )


class Retention(Section):
    """How much history is kept.

    Examples
    --------
    >>> Retention(versions=10)
    Retention(versions=10, runs=20)
    """

    versions: int = Field(50, ge=2, description="Published versions that are kept.")
    runs: int = Field(20, ge=1, description="Runs whose files are kept.")


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
        known = ", ".join(self.attribute_names)
        for i, query in enumerate(self.queries.inline):
            unknown = sorted(set(query.ranges) - set(self.attribute_names))
            if unknown:
                raise ValueError(
                    f"queries.inline[{i}].ranges ranges of the attributes {known}, "
                    f"got {', '.join(unknown)}"
                )
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
        return parse(document, self.source or self.stream)


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

"""The families, and the contract that each one's room keeps.

A family is a package ``planning.<name>`` whose modules have the same names everywhere, so that the
frame (stages, artifacts, runtime, report, command line) serves all of them alike:

===============  ==========================================================================
module           contains
===============  ==========================================================================
``parameters``   ``Parameters``: the family's part of a stream definition (pydantic)
``model``        the paper's nouns and equations
``statistics``   ``Statistics``, the bounded summary, and ``build(samples, definition)``, the
                 NumPy reference of the Spark app
``planner``      ``plan(statistics, definition) -> Plan``
``path``         the family's answer for every load, which the plan evaluates
``program``      the family's problem as an OR-Tools model, built from the statistics alone
``plan``         ``Plan`` and ``PlanDocument``, the msgspec type behind the JSON Schema
``codec``        the plan's two encodings: JSON document and compact bytes
``shedder``      ``Shedder(plan, load)``, a :class:`planning.shedder.BaseShedder`
``kernels``      compiled loops
``memory``       optional: what outlives a plan, where it takes a module
``simulate``     ``evaluate(plan, samples, definition, loads) -> tuple[Outcome, ...]``
``figures``      ``draw(plan, axes)``; optional ``further(plan, samples, definition)``
``demo``         ``land(folder, batch, definition)``: generated samples of the demo stream
``reevaluation`` optional: ``due`` and ``record``, which decide whether a scheduled run plans
``printed``      optional: the paper's own algorithms where ours replaced them and a
                 parameter still selects them
===============  ==========================================================================

At most two modules or subpackages are a family's own. Measurements and reproductions live in
``benchmarks/<family>``. Modules are imported on first use: a source node never loads a planner.

The protocols below are what the frame may rely on. What a family may leave out is marked optional
and has a protocol of its own, so that ``isinstance`` shows whether it is there.
"""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import (
    TYPE_CHECKING,
    Any,
    ClassVar,
    Literal,
    Protocol,
    Self,
    TypeVar,
    overload,
    runtime_checkable,
)

from planning.arrays import BoolArray, Columns, FloatArray, IntArray
from planning.errors import Mistake
from planning.pacing import UNLIMITED

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from upath import UPath

    from planning.batches import Batch, Schema
    from planning.certifying import Certifier
    from planning.home import Home
    from planning.sections import Attribute, FamilyParameters, Gate, Queries, Samples, Validity
    from planning.shedder import Decision, Draws, Measures

NAMES = ("sifter", "lira", "attributes", "joins", "fit")
SOLVER_STATUS = r"exact|within \d[\d.e-]*( expected)?|heuristic"
"""What a planner may say about its plan, as a regular expression."""

AnyParameters = TypeVar("AnyParameters", covariant=True)


class Definition(Protocol[AnyParameters]):
    """What a family may read from a stream definition (:class:`planning.streams.StreamDefinition`).

    ``Definition[Parameters]`` has the family's own parameters.
    """

    @property
    def stream(self) -> str:
        """Name of the stream."""

    @property
    def family(self) -> str:
        """Name of the family."""

    @property
    def attributes(self) -> tuple[Attribute, ...]:
        """Attributes of the stream's tuples, with their domains."""

    @property
    def attribute_names(self) -> tuple[str, ...]:
        """Names of the attributes, in the same order."""

    @property
    def parameters(self) -> AnyParameters:
        """The family's own part."""

    @property
    def queries(self) -> Queries:
        """Queries written in the definition, and the file that contains more."""

    @property
    def samples(self) -> Samples:
        """Where samples come from, and what makes a batch usable."""

    @property
    def gate(self) -> Gate:
        """When a new plan may replace the published one."""

    @property
    def validity(self) -> Validity:
        """How long a plan may be used."""

    @property
    def demo(self) -> bool:
        """Whether the stream makes its own samples."""

    @property
    def source(self) -> str:
        """File that the definition was read from."""


class Documented(Protocol):
    """Something that has a JSON form."""

    def to_document(self) -> dict[str, Any]:
        """Return the JSON form."""

    @classmethod
    def from_document(cls, document: dict[str, Any]) -> Self:
        """Return the object that a JSON form describes."""


class Statistics(Documented, Protocol):
    """The bounded summary of samples: a planner's only input besides the definition."""


class Setting(Protocol):
    """What a shedder needs at one load: a dataclass."""

    __dataclass_fields__: ClassVar[dict[str, Any]]


class Plan(Documented, Protocol):
    """Immutable, and a function of load, a fraction in [0, 1].

    A plan for a network also accepts a vector of input rates as the load.
    """

    def at(self, load: float) -> Setting | Mapping[str, float]:
        """Return the setting at a load; for a network, the drop fraction of every arc."""

    def predicted_quality(self, load: float) -> float:
        """Return the quality to expect at a load; 1 means nothing lost."""

    def summary(self) -> dict[str, Any]:
        """Return what a person wants to know at a glance."""

    def to_bytes(self) -> bytes:
        """Return the compact form."""

    @classmethod
    def from_bytes(cls, payload: bytes) -> Self:
        """Return the plan that a compact form describes."""


@runtime_checkable
class PassesFraction(Protocol):
    """Optional: a plan that can say how much of the stream it will pass."""

    def passed_fraction(self, load: float) -> float:
        """Return the fraction of the stream that is expected to pass at a load."""


class ItemCounts(Protocol):
    """What every family's counters offer."""

    @property
    def offered(self) -> int | IntArray:
        """Items offered, in as many rows as the family distinguishes."""

    @property
    def dropped(self) -> int | IntArray:
        """Items dropped, in the same rows."""

    @property
    def passed_fraction(self) -> float:
        """Fraction of what was offered that passed."""


class Shedder(Protocol):
    """Decides on batches and single items: a :class:`planning.shedder.BaseShedder`."""

    WEIGHTED: ClassVar[bool]

    @property
    def counters(self) -> ItemCounts:
        """What has been counted so far."""

    @property
    def schema(self) -> Schema:
        """The columns that are read."""

    @property
    def parts(self) -> tuple[str, ...]:
        """Names of the parts that are shed, the columns of the mask; none where items are."""

    def offer(self, batch: Any) -> BoolArray:
        """Decide on a batch of any form: True where an item, or a part of it, is kept."""

    def offer_one(self, item: Any) -> bool | BoolArray:
        """Decide on one item, or on every part of it."""

    def decide(
        self, batch: Batch, *, draws: Draws = None, most: int = UNLIMITED, weighted: bool = False
    ) -> Decision:
        """Decide on a batch that has been read, by keys if it has draws, within a limit."""

    def units(self, batch: Batch) -> int:
        """Return how much a batch offers, in the family's unit."""

    def set_load(self, load: float) -> None:
        """Follow a new load."""

    def adopt(self, old: Any) -> None:
        """Take over from the shedder of an older plan what outlives it."""

    def probe(self, rows: int) -> dict[str, Any]:
        """Return made-up columns of ordinary items."""

    def nothing(self, rows: int) -> BoolArray:
        """Return the mask that keeps nothing of so many items."""


@runtime_checkable
class CountsInputs(Protocol):
    """Optional: a shedder of a plan over rates, which can say what arrived of each input."""

    def arrivals(self, batch: Batch) -> dict[str, int]:
        """Return how many items of each input a batch holds."""

    def affordable(self, rates: Mapping[str, float]) -> float:
        """Return the share of these rates that the busiest server can take, at most 1."""


@runtime_checkable
class ChargesMarks(Protocol):
    """Optional: a shedder that must itself know which items are marked, and charges them.

    Of other families the data path takes marked items out, and lowers the load for the rest.
    """

    def set_marks(self, fraction: float) -> None:
        """Expect so many marked items, from the next load on."""

    def decide_marked(
        self,
        batch: Batch,
        marks: BoolArray,
        *,
        ahead: int,
        draws: Draws = None,
        most: int = UNLIMITED,
        weighted: bool = False,
    ) -> Decision:
        """Decide as ``decide`` does; marked items pass whole, or lose their mark in ``marks``.

        After the batch ``ahead`` items come before the next one that is marked.
        """


@runtime_checkable
class HasMeasures(Protocol):
    """Optional: a shedder that can say what it does to each part of its stream."""

    def measures(self) -> Measures:
        """Return it; called while another thread decides: it only reads, and nobody waits."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a plan did to a stream at one load, compared with random dropping.

    Qualities are the family's own measure scaled to [0, 1], with 1 meaning nothing lost.

    Examples
    --------
    >>> from planning.examples import demo_definition, demo_plan, demo_samples
    >>> evaluate = family("sifter").room("simulate").evaluate
    >>> fresh = demo_samples("sifter", batch=1)
    >>> [half] = evaluate(demo_plan("sifter"), fresh, demo_definition("sifter"), [0.5])
    >>> half.passed_fraction <= 0.5, half.quality > half.random_quality
    (True, True)
    """

    load: float
    """Of a schedule of loads, their mean."""
    predicted_quality: float
    quality: float
    random_quality: float
    passed_fraction: float
    offered: int
    baselines: dict[str, float] = field(default_factory=dict)
    """Quality of the family's simple alternatives besides random dropping, by name."""
    by_size: dict[str, float] = field(default_factory=dict)
    """Quality by batch size."""
    noise: float = 0.0
    """Standard error of the difference between ``quality`` and that of the strongest baseline."""
    error: float = 0.0
    """Standard error of ``quality``; where ``predicted_quality`` knows more than the load, of how
    far the two lie apart."""
    schedule: tuple[float, ...] = ()
    """Loads that followed one another, if the load changed."""

    @property
    def strongest(self) -> tuple[str, float]:
        """Name and quality of the best alternative, random dropping included.

        >>> Outcome(0.5, 0.8, 0.75, 0.5, 0.5, 1000, {"one delta": 0.7}).strongest
        ('one delta', 0.7)
        """
        every = {"random dropping": self.random_quality} | self.baselines
        return max(every.items(), key=lambda item: item[1])

    @property
    def spread(self) -> float:
        """How far qualities at different batch sizes lie apart."""
        return max(self.by_size.values(), default=0.0) - min(self.by_size.values(), default=0.0)

    @property
    def loss_ratio(self) -> float:
        """Loss over random dropping's loss: below 1 is better than random.

        >>> Outcome(0.5, 0.8, 0.75, 0.5, 0.5, 1000).loss_ratio
        0.5
        """
        random_loss = 1.0 - self.random_quality
        return (1.0 - self.quality) / random_loss if random_loss > 0 else 1.0


class ParametersRoom(Protocol):
    """``planning.<family>.parameters``."""

    @property
    def Parameters(self) -> type[FamilyParameters]:
        """The family's part of a definition, with what it may say about the whole."""


class StatisticsRoom(Protocol):
    """``planning.<family>.statistics``."""

    def build(self, samples: Columns, definition: Definition[Any]) -> Statistics:
        """Summarise samples in memory; the family's Spark app produces the same bytes."""

    @property
    def Statistics(self) -> type[Statistics]:
        """The bounded summary of samples."""


@runtime_checkable
class ByQuery(Protocol):
    """Optional: statistics that know what is left of every query."""

    def by_query(
        self, plan: Plan, definition: Definition[Any], loads: Sequence[float]
    ) -> dict[str, FloatArray]:
        """Return the completeness that is predicted for each query, by name, at loads."""


class PlannerRoom(Protocol):
    """``planning.<family>.planner``."""

    def plan(self, statistics: Statistics, definition: Definition[Any]) -> Plan:
        """Make the plan; the same statistics give the same bytes."""

    def solver_status(self, plan: Plan, definition: Definition[Any]) -> str:
        """Return how good the plan is known to be: ``exact``, ``within <eps>`` or ``heuristic``.

        ``within 0.1`` promises at most a tenth less than the best, ``within 0.1 expected`` that
        much on average. See :data:`SOLVER_STATUS`.
        """


@runtime_checkable
class Warns(Protocol):
    """Optional: a planner that can tell why a plan may disappoint."""

    def warnings(
        self, plan: Plan, statistics: Statistics, definition: Definition[Any]
    ) -> list[str]:
        """Return one sentence per weakness: what, why, and the remedy."""


class ProgramRoom(Protocol):
    """``planning.<family>.program``."""

    def certifier(
        self, plan: Plan, statistics: Statistics, definition: Definition[Any]
    ) -> Certifier:
        """Return what compares the plan with the family's OR-Tools model of the statistics."""


class PlanRoom(Protocol):
    """``planning.<family>.plan``."""

    @property
    def Plan(self) -> type[Plan]:
        """What is published."""

    @property
    def PlanDocument(self) -> type[Any]:
        """The msgspec type of the JSON form."""


class ShedderRoom(Protocol):
    """``planning.<family>.shedder``."""

    def Shedder(self, plan: Plan, load: float, **options: Any) -> Shedder:
        """Return a shedder that follows a plan at a load."""


class SimulateRoom(Protocol):
    """``planning.<family>.simulate``."""

    def evaluate(
        self, plan: Plan, samples: Columns, definition: Definition[Any], loads: Sequence[Any]
    ) -> tuple[Outcome, ...]:
        """Shed samples with a plan at several loads, and compare with what is simple.

        A load is a :data:`planning.rehearsal.Load`; a plan for a network also takes rates by input.
        """


class FiguresRoom(Protocol):
    """``planning.<family>.figures``."""

    def draw(self, plan: Plan, axes: Axes) -> None:
        """Draw the plan."""


@runtime_checkable
class FurtherFigures(Protocol):
    """Optional: figures that show more than the plan."""

    def further(
        self, plan: Plan, samples: Columns, definition: Definition[Any]
    ) -> Iterable[tuple[str, Callable[[Axes], None]]]:
        """Return captions, each with the function that draws its figure."""


class DemoRoom(Protocol):
    """``planning.<family>.demo``."""

    def land(self, folder: UPath, batch: int, definition: Definition[Any]) -> UPath:
        """Write a batch of generated samples into a landing folder; return the file."""


class ReevaluationRoom(Protocol):
    """``planning.<family>.reevaluation``; optional."""

    def due(self, home: Home, definition: Definition[Any], now_s: float) -> tuple[bool, str]:
        """Return whether a scheduled run should plan, and why."""

    def record(self, home: Home, definition: Definition[Any], plan: Plan, now_s: float) -> object:
        """Record the outcome of a run for the next decision."""


@dataclass(frozen=True, slots=True)
class Family:
    """One family; ``family.room("planner")`` is its module ``planning.<name>.planner``.

    Examples
    --------
    >>> sifter = family("sifter")
    >>> sifter.room("plan").Plan.__module__, sifter.has_room("reevaluation")
    ('planning.sifter.plan', False)
    """

    name: str

    def has_room(self, module: str) -> bool:
        """Whether the family has an optional module."""
        return importlib.util.find_spec(f"planning.{self.name}.{module}") is not None

    @overload
    def room(self, module: Literal["parameters"]) -> ParametersRoom: ...
    @overload
    def room(self, module: Literal["statistics"]) -> StatisticsRoom: ...
    @overload
    def room(self, module: Literal["planner"]) -> PlannerRoom: ...
    @overload
    def room(self, module: Literal["program"]) -> ProgramRoom: ...
    @overload
    def room(self, module: Literal["plan"]) -> PlanRoom: ...
    @overload
    def room(self, module: Literal["shedder"]) -> ShedderRoom: ...
    @overload
    def room(self, module: Literal["simulate"]) -> SimulateRoom: ...
    @overload
    def room(self, module: Literal["figures"]) -> FiguresRoom: ...
    @overload
    def room(self, module: Literal["demo"]) -> DemoRoom: ...
    @overload
    def room(self, module: Literal["reevaluation"]) -> ReevaluationRoom: ...
    def room(self, module: str) -> Any:
        """Import and return one of the family's modules."""
        return importlib.import_module(f"planning.{self.name}.{module}")


def family(name: str) -> Family:
    """Return the family called ``name``.

    >>> family("sifter").name
    'sifter'
    >>> family("sieve")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ...
    planning.errors.Mistake: family must be one of sifter, ..., got 'sieve'
    """
    if name not in NAMES:
        raise Mistake("family", f"one of {', '.join(NAMES)}", repr(name))
    return Family(name)

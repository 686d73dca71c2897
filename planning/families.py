"""The families, and the contract that each one's room keeps.

A family is a package ``planning.<name>`` whose modules have the same names everywhere, so that the
frame (stages, artifacts, runtime, report, command line) serves all of them alike:

===============  ==========================================================================
module           holds
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
``simulate``     ``evaluate(plan, samples, definition, loads) -> tuple[Outcome, ...]``
``figures``      ``draw(plan, axes)``; optional ``further(plan, samples, definition)``
``demo``         ``land(folder, batch, definition)``: generated samples of the demo stream
``reevaluation`` optional: ``due`` and ``record``, which scheduled runs plan anew
``printed``      optional: the paper's own algorithms where ours took their place and a
                 parameter still selects them
===============  ==========================================================================

At most two modules or subpackages are a family's own. What measures and reproduces lives in
``benchmarks/<family>``. Modules are imported on first use: a source node never loads a planner.

The protocols below are what the frame may rely on.
"""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeVar, overload

from planning.arrays import BoolArray, Columns
from planning.errors import InvalidInput

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from pydantic import BaseModel
    from upath import UPath

    from planning.home import Home
    from planning.sections import Attribute, Gate, Queries, Samples

NAMES = ("sifter", "lira", "attributes", "joins", "fit")

AnyParameters = TypeVar("AnyParameters", covariant=True)
Self = TypeVar("Self")


class Definition(Protocol[AnyParameters]):
    """What a family may ask of a stream definition (:class:`planning.streams.StreamDefinition`).

    ``Definition[Parameters]`` has the family's own parameters.
    """

    @property
    def stream(self) -> str: ...
    @property
    def attributes(self) -> tuple[Attribute, ...]: ...
    @property
    def attribute_names(self) -> tuple[str, ...]: ...
    @property
    def parameters(self) -> AnyParameters: ...
    @property
    def queries(self) -> Queries: ...
    @property
    def samples(self) -> Samples: ...
    @property
    def gate(self) -> Gate: ...
    @property
    def demo(self) -> bool: ...
    @property
    def source(self) -> str: ...


class Documented(Protocol):
    """Something that has a JSON form."""

    def to_document(self) -> dict[str, Any]: ...
    @classmethod
    def from_document(cls: type[Self], document: dict[str, Any]) -> Self: ...


class Statistics(Documented, Protocol):
    """The bounded summary of samples: a planner's only input besides the definition."""


class Setting(Protocol):
    """What a shedder needs at one load: a dataclass, or a mapping from part to drop fraction."""


Load = float | Sequence[float] | Mapping[str, float]
"""A fraction in [0, 1]; for networks also a vector of input rates."""


class Plan(Documented, Protocol):
    """Immutable, and a function of load."""

    def at(self, load: Any) -> Any: ...
    def predicted_quality(self, load: Any) -> float: ...
    def summary(self) -> dict[str, Any]: ...
    def to_bytes(self) -> bytes: ...
    @classmethod
    def from_bytes(cls: type[Self], payload: bytes) -> Self: ...


class ItemCounts(Protocol):
    """What every family's counters offer."""

    @property
    def passed_fraction(self) -> float: ...


class Shedder(Protocol):
    """Decides on batches and single items; never raises into the data path."""

    @property
    def counters(self) -> Any: ...
    def offer(self, batch: Any) -> BoolArray: ...
    def offer_one(self, item: Any) -> Any: ...
    def set_load(self, load: Any) -> None: ...
    def swap(self, plan: Any) -> None: ...


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a plan did to a stream at one load, beside dropping at random.

    Qualities are the family's own measure scaled to [0, 1] with 1 meaning nothing lost.

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
    predicted_quality: float
    quality: float
    random_quality: float
    passed_fraction: float
    offered: int

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
    def Parameters(self) -> type[BaseModel]: ...  # noqa: N802


class StatisticsRoom(Protocol):
    """``planning.<family>.statistics``."""

    @property
    def Statistics(self) -> type[Statistics]: ...  # noqa: N802
    def build(self, samples: Columns, definition: Definition[Any]) -> Statistics: ...


class PlannerRoom(Protocol):
    """``planning.<family>.planner``."""

    def plan(self, statistics: Statistics, definition: Definition[Any]) -> Plan: ...


class PlanRoom(Protocol):
    """``planning.<family>.plan``."""

    @property
    def Plan(self) -> type[Plan]: ...  # noqa: N802
    @property
    def PlanDocument(self) -> type[Any]: ...  # noqa: N802


class ShedderRoom(Protocol):
    """``planning.<family>.shedder``."""

    def Shedder(self, plan: Plan, load: Any) -> Shedder: ...  # noqa: N802


class SimulateRoom(Protocol):
    """``planning.<family>.simulate``."""

    def evaluate(
        self,
        plan: Plan,
        samples: Columns,
        definition: Definition[Any],
        loads: Sequence[float],
    ) -> tuple[Outcome, ...]: ...


class FiguresRoom(Protocol):
    """``planning.<family>.figures``."""

    def draw(self, plan: Plan, axes: Axes) -> None: ...


class DemoRoom(Protocol):
    """``planning.<family>.demo``."""

    def land(self, folder: UPath, batch: int, definition: Definition[Any]) -> UPath: ...


class ReevaluationRoom(Protocol):
    """``planning.<family>.reevaluation``."""

    def due(self, home: Home, definition: Definition[Any], now_s: float) -> tuple[bool, str]: ...
    def record(
        self, home: Home, definition: Definition[Any], plan: Plan, now_s: float
    ) -> object: ...


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
    >>> family("sieve")
    Traceback (most recent call last):
    ...
    planning.errors.InvalidInput: family must be one of sifter, lira, attributes, joins, fit, \
got 'sieve'
    """
    if name not in NAMES:
        raise InvalidInput(f"family must be one of {', '.join(NAMES)}, got {name!r}")
    return Family(name)

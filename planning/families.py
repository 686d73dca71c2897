"""The families, and the contract that each one's room keeps.

A family is a package ``planning.<name>`` whose modules have the same names everywhere, so that the
frame (stages, artifacts, runtime, report, command line) serves all of them alike:

===============  ==========================================================================
module           offers
===============  ==========================================================================
``parameters``   ``Parameters``: the family's part of a stream definition (pydantic)
``statistics``   ``Statistics`` with ``to_document`` / ``from_document``, and
                 ``build(samples, definition)``, the NumPy reference of the Spark app
``planner``      ``plan(statistics, definition) -> Plan``
``plan``         ``Plan``: ``at(load)``, ``predicted_quality(load)``, ``summary()``,
                 ``to_document`` / ``from_document`` (JSON), ``to_bytes`` / ``from_bytes``;
                 ``PlanDocument``, the msgspec type behind the published JSON Schema
``shedder``      ``Shedder(plan, load)``: ``offer(batch) -> keep mask``, ``offer_one(item)``,
                 ``set_load(load)``, ``swap(plan)``, ``counters``; derives from
                 :class:`planning.shedder.BaseShedder`
``simulate``     ``evaluate(plan, samples, definition, loads) -> tuple[Outcome, ...]``
``demo``         ``land(folder, batch, definition)``: generated samples of the demo stream
``figures``      ``draw(plan, axes)``; optional ``further(plan, samples, definition)``:
                 captioned drawings for the report, ``[(caption, draw(axes)), …]``
``reproduce``    ``reproduce(folder, quick, progress)``: the paper's figures and tables
``reevaluation`` optional: ``due`` and ``record``, which scheduled runs plan anew
===============  ==========================================================================

Further names mean the same in every family that has them: ``model`` (the paper's nouns),
``compact`` (the binary form), ``kernels`` (compiled loops), ``linear_program`` (the reference
solver), ``workload`` (generated streams), ``recorded`` (real data), ``scene`` and ``experiments``
(measurements), ``claims`` (what the paper states beside what was found).

Modules are imported on first use: a source node never loads a planner.
"""

from __future__ import annotations

import importlib
import importlib.util
from dataclasses import dataclass
from types import ModuleType

from planning.errors import InvalidInput

NAMES = ("sifter", "lira", "attributes", "joins", "fit")


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

    def room(self, module: str) -> ModuleType:
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

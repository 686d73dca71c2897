"""Loads as people write them: a fraction, ``0.5``, or rates of all inputs, ``i1=200,i2=50``.

The command line, the plan API and the Plans page take the same text. In JSON a load is a number or
an object: ``0.5``, ``{"i1": 200.0, "i2": 50.0}``.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from planning.errors import Mistake, check_between

if TYPE_CHECKING:
    from planning.arrays import FloatArray
    from planning.families import Plan

# A name may contain commas and equal signs, a rate neither.
PAIR = re.compile(r"\s*(.*?)\s*=([^=,]*)(?:,|$)")


class Inputs(Protocol):
    """What feeds a plan of rates."""

    @property
    def input_ids(self) -> tuple[str, ...]:
        """Ids of the inputs, in their order."""


@runtime_checkable
class OfRates(Protocol):
    """Optional: a plan that is also a function of its inputs' rates, as a mapping by id."""

    @property
    def network(self) -> Inputs:
        """What the plan sheds for."""

    def rates_at(self, load: float) -> FloatArray:
        """Return the rates that a scalar load stands for, in the order of the inputs."""


def parse(text: str, plan: Plan, *, open_low: bool = False) -> Any:
    """Return a load that ``plan`` takes: a fraction, or the rate of every input by its id.

    Parameters
    ----------
    text
        ``0.5`` or ``i1=200,i2=50``, in any order; rates in tuples per second.
    plan
        The plan that is asked; only a plan of rates has inputs.
    open_low
        Whether the fraction 0 is refused.

    Examples
    --------
    >>> from planning.examples import demo_plan
    >>> parse("0.5", demo_plan("sifter"))
    0.5
    >>> from planning.fit.demo import figure_1
    >>> from planning.fit.planner import plan_network
    >>> parse("i2=0.5, i1=1", plan_network(figure_1()))
    {'i1': 1.0, 'i2': 0.5}
    >>> parse("i1=1,i2=0.5", demo_plan("sifter"))
    Traceback (most recent call last):
    ...
    planning.errors.Mistake: load must be one fraction in [0, 1], got 'i1=1,i2=0.5'; this plan is \
no function of input rates; pass a number such as 0.5
    """
    inputs = plan.network.input_ids if isinstance(plan, OfRates) else ()
    if "=" not in text:
        return _fraction(text, inputs, open_low)
    if not inputs:
        remedy = "this plan is no function of input rates; pass a number such as 0.5"
        raise Mistake("load", "one fraction in [0, 1]", repr(text), remedy)
    pairs = PAIR.findall(text)
    names = [name for name, _ in pairs]
    rest = PAIR.sub("", text).strip()
    wrong = {
        "no rate": [rest] if rest else [],
        "unknown": [name for name in names if name not in inputs],
        "missing": [i for i in inputs if i not in names],
        "twice": [name for name, count in Counter(names).items() if count > 1],
    }
    if any(wrong.values()):
        got = "; ".join(f"{what}: {', '.join(map(repr, n))}" for what, n in wrong.items() if n)
        allowed = f"the rate of each of the plan's inputs {', '.join(inputs)} once"
        raise Mistake("load", allowed, f"{text!r} ({got})", f"pass {_form(inputs)}", verb="name")
    rates = {name: _rate(name, rate) for name, rate in pairs}
    return {name: rates[name] for name in inputs}


def as_text(load: float | Mapping[str, float]) -> str:
    """Return a load as :func:`parse` reads it.

    >>> as_text(0.5), as_text({"i1": 200.0, "i2": 50.0})
    ('0.5', 'i1=200,i2=50')
    """
    if isinstance(load, Mapping):
        return ",".join(f"{name}={rate:g}" for name, rate in load.items())
    return f"{load:g}"


def example(plan: Plan) -> str:
    """Return a load to start from, in the richest form the plan takes: twice what is affordable.

    >>> from planning.fit.demo import figure_1
    >>> from planning.fit.planner import plan_network
    >>> example(plan_network(figure_1()))
    'i1=0.5,i2=0.5'
    """
    if not isinstance(plan, OfRates):
        return as_text(0.5)
    return as_text(dict(zip(plan.network.input_ids, plan.rates_at(0.5).tolist(), strict=True)))


def _fraction(text: str, inputs: tuple[str, ...], open_low: bool) -> float:
    rates = f", or the rates of all inputs: {_form(inputs)}" if inputs else ""
    try:
        number = float(text)
    except ValueError:
        remedy = f"pass a number such as 0.5{rates}"
        raise Mistake("load", "a fraction in [0, 1]", repr(text), remedy) from None
    remedy = f"pass a fraction, not a percentage (0.5 for 50 %){rates}"
    return check_between("load", number, 0.0, 1.0, open_low=open_low, remedy=remedy)


def _rate(name: str, text: str) -> float:
    try:
        rate = float(text)
    except ValueError:
        rate = math.nan
    if not 0.0 <= rate < math.inf:
        allowed = "a finite number >= 0, in tuples per second"
        raise Mistake(f"rate of input {name}", allowed, repr(text.strip()), f"pass {name}=200")
    return rate


def _form(inputs: tuple[str, ...]) -> str:
    return ",".join(f"{name}=<rate>" for name in inputs)

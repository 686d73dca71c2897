"""Loads as text: fractions and rates of inputs."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from planning import loads
from planning.errors import Mistake
from planning.fit.demo import figure_1
from planning.fit.planner import plan_network

PLAN = plan_network(figure_1())
"""A plan of the rates of i1 and i2."""


class Scalar:
    """A plan whose load is one number."""


class Odd:
    """A plan of rates whose inputs have names that the text form itself uses."""

    class network:
        input_ids = ("a,b", "x=y", "c d")

    def rates_at(self, load: float) -> list[float]:
        raise NotImplementedError


@pytest.mark.parametrize("plan", [PLAN, Scalar()])
@pytest.mark.parametrize(
    ("text", "load"), [("0.5", 0.5), (" 1 ", 1.0), ("0", 0.0), ("1e-3", 0.001)]
)
def test_a_fraction_is_a_load_of_every_plan(plan, text, load):
    assert loads.parse(text, plan) == load


@pytest.mark.parametrize("text", ["i1=200,i2=50", "i2=50,i1=200", " i1 = 2e2 , i2 = 50.0 "])
def test_rates_come_in_any_order_and_leave_in_that_of_the_inputs(text):
    load = loads.parse(text, PLAN)
    assert load == {"i1": 200.0, "i2": 50.0}
    assert list(load) == ["i1", "i2"]
    assert loads.as_text(load) == "i1=200,i2=50"


def test_rates_reach_the_plan():
    load = loads.parse("i1=1,i2=1", PLAN)
    assert PLAN.at(load) == PLAN.at([1.0, 1.0])
    assert PLAN.predicted_quality(load) == PLAN.predicted_quality([1.0, 1.0])


def test_names_may_contain_the_signs_of_the_form():
    assert loads.parse("x=y=2,c d=3,a,b=1", Odd()) == {"a,b": 1.0, "x=y": 2.0, "c d": 3.0}


FORM = "pass i1=<rate>,i2=<rate>"
EACH = "load must name the rate of each of the plan's inputs i1, i2 once, got"
RATE = "must be a finite number >= 0, in tuples per second, got"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("i1=1", f"{EACH} 'i1=1' (missing: 'i2'); {FORM}"),
        ("i1=1,i2=1,i3=1", f"{EACH} 'i1=1,i2=1,i3=1' (unknown: 'i3'); {FORM}"),
        ("i1=1,i2", f"{EACH} 'i1=1,i2' (no rate: 'i2'; missing: 'i2'); {FORM}"),
        ("i1=1,i2=2,i1=3", f"{EACH} 'i1=1,i2=2,i1=3' (twice: 'i1'); {FORM}"),
        ("=1", f"{EACH} '=1' (unknown: ''; missing: 'i1', 'i2'); {FORM}"),
        ("i1=-1,i2=1", f"rate of input i1 {RATE} '-1'; pass i1=200"),
        ("i1=1,i2=nan", f"rate of input i2 {RATE} 'nan'; pass i2=200"),
        ("i1=1,i2=inf", f"rate of input i2 {RATE} 'inf'; pass i2=200"),
        ("i1=1,i2=", f"rate of input i2 {RATE} ''; pass i2=200"),
        ("i1=1,i2=fast", f"rate of input i2 {RATE} 'fast'; pass i2=200"),
        (
            "50",
            "load must lie in [0, 1], got 50; pass a fraction, not a percentage (0.5 for 50 %), or "
            "the rates of all inputs: i1=<rate>,i2=<rate>",
        ),
        (
            "half",
            "load must be a fraction in [0, 1], got 'half'; pass a number such as 0.5, or the "
            "rates of all inputs: i1=<rate>,i2=<rate>",
        ),
        ("", "load must be a fraction in [0, 1], got ''"),
        ("nan", "load must lie in [0, 1], got nan"),
        ("-0.1", "load must lie in [0, 1], got -0.1"),
    ],
)
def test_a_mistake_names_field_allowed_got_and_remedy(text, message):
    with pytest.raises(Mistake) as caught:
        loads.parse(text, PLAN)
    assert str(caught.value).startswith(message)
    assert caught.value.remedy


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("i1=1,i2=2", "load must be one fraction in [0, 1], got 'i1=1,i2=2'; this plan is no "),
        ("50", "load must lie in [0, 1], got 50; pass a fraction, not a percentage (0.5 for 50 %)"),
        ("half", "load must be a fraction in [0, 1], got 'half'; pass a number such as 0.5"),
    ],
)
def test_a_plan_of_scalars_takes_no_rates(text, message):
    with pytest.raises(Mistake) as caught:
        loads.parse(text, Scalar())
    assert str(caught.value).startswith(message)
    assert "<rate>" not in str(caught.value)


def test_zero_is_refused_where_nothing_can_be_tried_at_it():
    with pytest.raises(Mistake, match=r"load must lie in \(0, 1\], got 0"):
        loads.parse("0", PLAN, open_low=True)


@given(st.text(alphabet="i12=,. -naf", max_size=20))
def test_any_text_is_a_load_that_the_plan_takes_or_a_mistake(text):
    try:
        load = loads.parse(text, PLAN)
    except Mistake:
        return
    assert PLAN.network.rate_vector(load).size == 2 if isinstance(load, dict) else 0 <= load <= 1


def test_the_example_is_a_load_of_its_plan():
    assert loads.parse(loads.example(PLAN), PLAN) == {"i1": 0.5, "i2": 0.5}
    assert loads.parse(loads.example(Scalar()), Scalar()) == 0.5

"""The check of the contract itself: what departs from a protocol is found."""

from __future__ import annotations

from typing import Any

from contract import departures

from planning.families import Plan, Shedder


class Careless:
    counters = 0

    def offer(self, items: Any) -> None: ...
    def set_load(self, load: float, urgently: bool) -> None: ...
    def adopt(self, old: Any, gently: bool = False) -> None: ...


def test_absent_names_and_other_parameters_are_found() -> None:
    lacking = ("schema", "parts", "offer_one", "decide", "units", "probe", "nothing")
    assert set(departures(Careless(), Shedder)) == {
        "offer of Careless takes ['items'], not ['batch']",
        "set_load of Careless takes ['load', 'urgently'], not ['load']",
        *(f"Careless has no {name}" for name in lacking),
    }


def test_inherited_promises_count() -> None:
    lacking = departures(object(), Plan)
    assert {"object has no to_document", "object has no at"} < set(lacking)

"""Certificates and guarantees in the words and tables that people read everywhere."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec import UNSET
from msgspec.structs import replace

from planning import assurances
from planning.artifacts import Certificate, CertifiedLoad, KeptGuarantee, PredictedLimit, Published
from planning.examples import demo_plan, demo_store
from planning.guarantees import NOWHERE, Guarantee

CHECKED = {"gap": 0.0, "loads": 24, "of": 24, "solver": "OR-Tools 9.15 GLOP", "seconds": 0.4}


def manifest(**fields: Any) -> Any:
    return replace(demo_store("sifter")[0].latest("ticks"), **fields)


def kept(**fields: Any) -> KeptGuarantee:
    given = {"name": "query alerts", "limit": "min_completeness", "value": 0.95, "priority": 1,
             "holds_from": 0.2134}  # fmt: skip
    return KeptGuarantee(**given | fields)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (
            {"status": "optimal", "scope": "optimal for these 16 regions", **CHECKED},
            "optimal for these 16 regions: gap 0 at 24 of 24 loads, OR-Tools 9.15 GLOP, 0.4 s",
        ),
        (
            {"status": "within 0.02", "scope": "optimal for these 16 regions", **CHECKED,
             "gap": 0.0213, "loads": 7, "reason": "the time limit of 2 s ended the checks"},
            "within 0.02 of the best for these 16 regions: gap 0.021 at 7 of 24 loads, "
            "OR-Tools 9.15 GLOP, 0.4 s; the time limit of 2 s ended the checks",
        ),
        (
            {"status": "not certified", "reason": "ImportError: no ortools"},
            "not certified: ImportError: no ortools",
        ),
    ],
)  # fmt: skip
def test_a_certificate_in_words(given: dict[str, Any], said: str) -> None:
    assert assurances.certificate(manifest(certificate=Certificate(**given))) == said


def test_no_certificate_in_words() -> None:
    assert assurances.certificate(manifest(certificate=UNSET, schema_version=2)) == "none"
    old = manifest(certificate=UNSET, schema_version=1)
    assert assurances.certificate(old) == "none: schema version 1 has none"
    assert assurances.checks(old)[1] == []


def test_checks_are_listed_by_load() -> None:
    points = [
        CertifiedLoad(load=load, objective=0.5, best=0.5, bound=bound, violation=0.0)
        for load, bound in ((0.7, 0.5), (0.1, 0.625))
    ]
    found = Certificate(status="within 0.2", checks=tuple(points), loads=2, of=2)
    columns, rows = assurances.checks(manifest(certificate=found))
    assert columns == ["load", "the plan", "solver's best", "dual bound", "gap"]
    assert rows == [
        ["0.1", "0.500000", "0.500000", "0.625000", "0.2"],
        ["0.7", "0.500000", "0.500000", "0.500000", "0"],
    ]


def test_checks_at_rate_vectors_keep_their_order() -> None:
    points = [
        CertifiedLoad(load=load, objective=1.0, best=1.0, bound=1.0, violation=0.0)
        for load in ((0.25, 3.0), {"i": 2.0})
    ]
    found = Certificate(status="optimal", checks=tuple(points), loads=2, of=2)
    assert [row[0] for row in assurances.checks(manifest(certificate=found))[1]] == [
        "(0.25, 3)", "(i 2)",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("limit", "asked", "value", "short"),
    [
        ("min_completeness", 0.95, 0.95, False),
        ("min_completeness", 0.95, 0.95 * (1 - 1e-7), False),
        ("min_completeness", 0.95, 0.9499, True),
        ("min_share", 0.01, 0.0099, True),
        ("max_delta", 50.0, 50.0, False),
        ("max_delta", 50.0, 49.0, False),
        ("max_delta", 50.0, 50.1, True),
        ("max_age_s", 2.0, 2.1, True),
    ],
)
def test_what_breaks_a_guarantee_is_short(
    limit: str, asked: float, value: float, short: bool
) -> None:
    one = kept(limit=limit, value=asked)
    assert assurances.holds(one, value) is not short
    assert assurances.shown(one, value) == f"{value:.4g}{' short' if short else ''}"


def test_guarantees_in_a_table() -> None:
    points = tuple(PredictedLimit(load=z, value=v) for z, v in ((0.1, 0.6), (0.3, 0.97)))
    nowhere = kept(name="tenant acme", value=0.5, priority=0, holds_from=NOWHERE, predicted=points)
    columns, rows = assurances.table([kept(predicted=points), nowhere])
    assert columns == [
        "guarantee", "limit", "asked for", "priority", "holds", "at 0.1", "at 0.3",
    ]  # fmt: skip
    assert rows == [
        ["query alerts", "min_completeness", "0.95", "1", "down to load 0.213", "0.6 short",
         "0.97"],
        ["tenant acme", "min_completeness", "0.5", "0", "at no load", "0.6", "0.97"],
    ]  # fmt: skip
    assert assurances.table([])[1] == []


class Keeps:
    """A plan that keeps a guarantee."""

    guarantees = (Guarantee("query alerts", "min_completeness", 0.95, 1, 0.5),)

    def kept(self, load: float) -> tuple[float, ...]:
        return (min(1.0, 1.9 * load),)


def test_what_a_plan_predicts_for_its_guarantees() -> None:
    (one,) = assurances.predicted(Keeps(), [0.25, 0.5])  # type: ignore[arg-type]
    assert (one.name, one.holds_from) == ("query alerts", 0.5)
    assert [(p.load, p.value) for p in one.predicted] == [(0.25, 0.475), (0.5, 0.95)]
    assert assurances.predicted(demo_plan("sifter"), [0.5]) == ()


def test_a_version_predicts_where_its_manifest_does_and_where_asked() -> None:
    recorded = kept(predicted=(PredictedLimit(load=0.3, value=0.57),))
    published = Published(manifest(guarantees=(recorded,)), Keeps(), b"")  # type: ignore[arg-type]
    (one,) = assurances.guarantees(published, [0.8])
    assert [p.load for p in one.predicted] == [0.3, 0.8]
    # A plan that says nothing itself: what was recorded is all there is.
    old = Published(manifest(guarantees=(recorded,)), demo_plan("sifter"), b"")
    assert assurances.guarantees(old) == (recorded,)
    none = Published(manifest(guarantees=UNSET), demo_plan("sifter"), b"")
    assert assurances.guarantees(none) == ()

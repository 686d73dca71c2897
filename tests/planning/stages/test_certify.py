"""The certificate of a run: what it says, what it stops, and that it can be made again."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from planning.artifacts import Store, files
from planning.certifying import Contradiction
from planning.errors import ArtifactError, NoPlan, PlanningError
from planning.families import family
from planning.home import Home
from planning.joins import planner, program
from planning.stages import collect, gate, local, publish, solve
from planning.stages.certify import repeat
from planning.stages.publish import MOST_CHECKS
from planning.stages.run import Run
from planning.streams import StreamDefinition, parse

NOW = "2026-01-02T03:04:05Z"
FLASH = {"types": {"flash": {"min_share": 0.3, "priority": 2}}}
Damage = Callable[[Any], Any]


@pytest.fixture(scope="module")
def news(demo_definitions: list[StreamDefinition]) -> StreamDefinition:
    return next(d for d in demo_definitions if d.family == "joins")


@pytest.fixture(scope="module")
def solved(tmp_path_factory: pytest.TempPathFactory, news: StreamDefinition) -> Path:
    """Return a home with the statistics of one run."""
    home = Home.at(tmp_path_factory.mktemp("certified"))
    family("joins").room("demo").land(home.resolve(news.landing), 0, news)
    run = collect.collect(home, news, "first")
    local.validate(run)
    local.statistics(run)
    return Path(str(run.folder))


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home.at(tmp_path)


def asked(
    home: Home, solved: Path, news: StreamDefinition, name: str = "first", **changes: Any
) -> Run:
    """Return a run with the statistics of the solved one, with other parameters or parts."""
    run = Run.of(home, news.stream, name)
    shutil.copytree(solved, Path(str(run.folder)))
    document = run.read("definition")
    parameters = document["definition"]["parameters"] | changes.pop("parameters", {})
    definition = document["definition"] | changes | {"parameters": parameters}
    definition["gate"] |= {"certificate_s": 60.0}
    run.write("definition", {**document, "definition": definition})
    return run


@pytest.fixture
def spoiled(monkeypatch: pytest.MonkeyPatch) -> Callable[[Damage], None]:
    """Return what makes the planner give another plan than the one it solved."""

    def spoil(damage: Damage) -> None:
        right = planner.plan
        monkeypatch.setattr(planner, "plan", lambda *given: damage(right(*given)))

    return spoil


def swapped(plan: Any) -> Any:
    density = np.array(plan.density)
    density.ravel()[plan.order[[0, 30]]] = density.ravel()[plan.order[[30, 0]]]
    return replace(plan, density=density)


class TestContradicted:
    """A plan that its certificate contradicts goes nowhere."""

    def test_it_is_no_candidate_and_the_run_fails_with_both_values(
        self, home: Home, solved: Path, news: StreamDefinition, spoiled: Any
    ) -> None:
        spoiled(lambda plan: replace(plan, lasting=(0.5,) * 6))
        run = asked(home, solved, news)
        with pytest.raises(
            Contradiction,
            match=r"claims quality 0\.\d{8}, its setting has 0\.\d{8}.*nothing is published",
        ):
            solve.solve(run)
        assert run.has("contradicted")
        assert not run.has("candidate")
        assert not run.has("certificate")
        left = run.read("contradicted")
        assert (left["family"], left["solver_status"]) == ("joins", "exact")
        assert left["plan"]["lasting"] == [0.5] * 6

    def test_nothing_is_published_and_the_last_good_plan_stays(
        self, home: Home, solved: Path, news: StreamDefinition, spoiled: Any
    ) -> None:
        first = asked(home, solved, news)
        solve.solve(first)
        gate.gate(home, first)
        publish.publish(home, first, created_at=NOW)
        spoiled(swapped)
        second = asked(home, solved, news, "second")
        with pytest.raises(Contradiction):
            solve.solve(second)
        for stage in (
            lambda: gate.gate(home, second),
            lambda: publish.publish(home, second, created_at=NOW),
        ):
            with pytest.raises(PlanningError):
                stage()
        assert home.store().versions(news.stream) == (1,)

    def test_a_plan_for_other_guarantees_is_contradicted(
        self, home: Home, solved: Path, news: StreamDefinition, spoiled: Any
    ) -> None:
        spoiled(lambda plan: replace(plan, guaranteed=None))
        with pytest.raises(Contradiction, match="the guarantees of the definition"):
            solve.solve(asked(home, solved, news, parameters=FLASH))

    def test_a_second_attempt_that_is_right_goes_on(
        self, home: Home, solved: Path, news: StreamDefinition, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        run, right = asked(home, solved, news), planner.plan
        with monkeypatch.context() as patch:
            patch.setattr(planner, "plan", lambda *given: swapped(right(*given)))
            with pytest.raises(Contradiction):
                solve.solve(run)
        solve.solve(run)
        assert run.read("certificate")["status"] == "optimal"
        assert run.has("candidate")


def published(home: Home, run: Run) -> Any:
    solve.solve(run)
    gate.gate(home, run)
    publish.publish(home, run, created_at=NOW)
    return home.store().latest(run.definition().stream)


class TestPublished:
    """The certificate and the guarantees stand in the manifest, and can be made again."""

    def test_the_manifest_has_them(self, home: Home, solved: Path, news: StreamDefinition) -> None:
        made = published(home, asked(home, solved, news, parameters=FLASH))
        found = made.certificate
        assert (made.schema_version, made.solver_status.split()[0]) == (2, "within")
        assert found.loads == found.of > len(found.checks) == MOST_CHECKS
        assert found.scope == "optimal for the estimated densities of these 126 items"
        assert found.gap == pytest.approx(max(check.gap for check in found.checks), abs=1e-9)
        assert all(c.objective <= c.best <= c.bound + 1e-6 for c in found.checks)
        (kept,) = made.guarantees
        assert (kept.name, kept.limit, kept.value, kept.priority) == (
            "type flash", "min_share", 0.3, 2,
        )  # fmt: skip
        assert [p.load for p in kept.predicted] == list(news.gate.loads)
        for point in kept.predicted:
            if point.load >= kept.holds_from:
                assert point.value >= 0.3 - 1e-6
        assert home.store().verify(news.stream).ok

    def test_it_is_made_again_from_what_was_kept(
        self, home: Home, solved: Path, news: StreamDefinition
    ) -> None:
        made = published(home, asked(home, solved, news, parameters=FLASH))
        version, again = repeat(home.store(), news.stream)
        assert version == 1
        assert (again.status, again.loads, again.of) == (
            made.certificate.status, made.certificate.loads, made.certificate.of,
        )  # fmt: skip
        every = {check.load: check for check in again.checks}
        assert len(every) == again.loads
        assert {*news.gate.loads, 0.0, 1.0} <= set(every)
        for one in made.certificate.checks:
            assert every[one.load].objective == pytest.approx(one.objective, abs=1e-12)
        assert repeat(home.store(), news.stream, 1, 0.0)[1].loads == 1

    def test_a_published_plan_that_is_wrong_is_found(
        self, home: Home, solved: Path, news: StreamDefinition, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        with monkeypatch.context() as patch:
            right = planner.plan
            patch.setattr(planner, "plan", lambda *given: swapped(right(*given)))
            patch.setattr(program, "certifier", None)
            made = published(home, asked(home, solved, news))
        assert made.certificate.status == "not certified"
        assert made.certificate.reason.startswith("TypeError: ")
        with pytest.raises(Contradiction):
            repeat(home.store(), news.stream)

    def test_what_keeps_the_second_opinion_away_is_said(
        self, home: Home, solved: Path, news: StreamDefinition, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def absent(*given: Any) -> None:
            raise ImportError("no module\nnamed ortools" + " at all" * 100)

        monkeypatch.setattr(program, "certifier", absent)
        made = published(home, asked(home, solved, news))
        assert made.certificate.status == "not certified"
        assert made.certificate.reason.startswith("ImportError: no module named ortools at all")
        assert len(made.certificate.reason) <= 300
        assert (made.certificate.loads, made.certificate.checks) == (0, ())

    def test_schema_version_1_has_neither(
        self, home: Home, solved: Path, news: StreamDefinition
    ) -> None:
        made = published(home, asked(home, solved, news, schema_version=1))
        assert (made.schema_version, made.certificate, made.guarantees) == (
            1, msgspec.UNSET, msgspec.UNSET,
        )  # fmt: skip
        assert "certificate" not in msgspec.to_builtins(made)
        # What it was made from is kept all the same.
        assert repeat(home.store(), news.stream)[1].status == "optimal"

    def test_schema_version_1_refuses_guarantees(
        self, home: Home, solved: Path, news: StreamDefinition
    ) -> None:
        run = asked(home, solved, news, schema_version=1, parameters=FLASH)
        with pytest.raises(PlanningError, match="schema_version must be 2 for a.*plan with guaran"):
            published(home, run)
        with pytest.raises(NoPlan):
            home.store().latest(news.stream)


def kept_input(store: Store, stream: str, name: str) -> Any:
    return store.folder(stream, "inputs") / store.latest(stream).inputs[name]


class TestKept:
    """Whatever is wrong with what was kept says so."""

    @pytest.fixture
    def store(self, home: Home, solved: Path, news: StreamDefinition) -> Store:
        published(home, asked(home, solved, news))
        return home.store()

    @pytest.mark.parametrize("name", ["statistics", "definition"])
    def test_missing(self, store: Store, news: StreamDefinition, name: str) -> None:
        kept_input(store, news.stream, name).unlink()
        with pytest.raises(
            PlanningError, match=rf"the {name} of version 1 of news is not in the store.*plan again"
        ):
            repeat(store, news.stream)

    @pytest.mark.parametrize("name", ["statistics", "definition"])
    def test_damaged(self, store: Store, news: StreamDefinition, name: str) -> None:
        path = kept_input(store, news.stream, name)
        path.write_bytes(path.read_bytes().replace(b"1", b"2", 1))
        with pytest.raises(ArtifactError, match=rf"the {name} of version 1 .*not match its digest"):
            repeat(store, news.stream)

    def test_too_large(
        self, home: Home, solved: Path, news: StreamDefinition, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(files, "INPUT_BYTES", 1_000)
        published(home, asked(home, solved, news))
        with pytest.raises(
            PlanningError, match=r"the definition has \d+ bytes, and at most 1000 are kept; restore"
        ):
            repeat(home.store(), news.stream)

    def test_a_version_that_names_none(self, home: Home, solved: Path, news: Any) -> None:
        run = asked(home, solved, news)
        solve.solve(run)
        signer = publish.SigningKey.load_or_create(home.keys)
        home.store().publish(
            news.stream, solve.candidate(run), family="joins", signer=signer, created_at=NOW
        )
        with pytest.raises(PlanningError, match="version 1 of news names no definition"):
            repeat(home.store(), news.stream)

    @pytest.mark.parametrize(
        "change",
        [
            lambda s: s.pop("hits"),
            lambda s: s.update(hits=s["hits"][:-1]),
            lambda s: s.update(types="flash"),
            lambda s: s.update(window_s=[0, 20]),
        ],
    )
    def test_statistics_that_this_release_cannot_read(
        self, home: Home, solved: Path, news: Any, change: Callable[[dict[str, Any]], Any]
    ) -> None:
        run = asked(home, solved, news)
        solve.solve(run)
        statistics = run.read("statistics")
        change(statistics)
        signer = publish.SigningKey.load_or_create(home.keys)
        texts = {"statistics": statistics, "definition": run.read("definition")}
        home.store().publish(
            news.stream, solve.candidate(run), family="joins", signer=signer, created_at=NOW,
            inputs={name: json.dumps(text).encode() for name, text in texts.items()},
        )  # fmt: skip
        with pytest.raises(
            PlanningError, match=r"statistics of version 1 of news cannot be read.*or plan again"
        ):
            repeat(home.store(), news.stream)


def test_the_queries_of_a_file_are_kept_too(tmp_path: Path) -> None:
    (tmp_path / "asked.jsonl").write_text('{"name": "cheap", "ranges": {"price": [0, 30]}}\n')
    document = {
        "stream": "ticks",
        "family": "sifter",
        "attributes": [
            {"name": "price", "domain": [0, 100]}, {"name": "volume", "domain": [0, 1000]},
        ],
        "queries": {"file": str(tmp_path / "asked.jsonl")},
    }  # fmt: skip
    ticks, home = parse(document, str(tmp_path / "ticks.yaml")), Home.at(tmp_path / "home")
    family("sifter").room("demo").land(home.resolve(ticks.landing), 0, ticks)
    run = collect.collect(home, ticks, "first")
    local.validate(run)
    local.statistics(run)
    made = published(home, run)
    assert set(made.inputs) >= {"queries", "definition", "statistics"}
    (tmp_path / "asked.jsonl").unlink()
    assert repeat(home.store(), "ticks")[1].status == made.certificate.status
    kept_input(home.store(), "ticks", "queries").unlink()
    with pytest.raises(PlanningError, match="the queries of version 1 of ticks is not in the"):
        repeat(home.store(), "ticks")

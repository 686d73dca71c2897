"""What is settled for a micro-batch, by whom, and what the driver makes of its progress."""

from __future__ import annotations

import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from planning.artifacts import SigningKey, Store
from planning.errors import ArtifactError
from planning.examples import demo_plan
from spark_apps.streaming import Control, Law, Pace, Terms
from spark_apps.streaming.worker import Settings, Worker, trust_of
from tests.support.streaming import new_store, publish_demo

QUERY = "3f2a"


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return new_store(tmp_path)


@pytest.fixture
def control(tmp_path: Path) -> Control:
    return Control(tmp_path / "control", QUERY, "ticks")


def worker(store: Store, **changes: Any) -> Worker:
    given: dict[str, Any] = {
        "store": str(store.root), "trust": trust_of(store.trusted), "stream": "ticks",
        "family": "sifter", "key": ("id",), "salt": None, "load": None, "control": None,
        "landing": None, "sampling_fraction": 0.01, "options": {}, "token": None,
    }  # fmt: skip
    return Worker(Settings(**{**given, **changes}))


def test_all_who_ask_at_once_get_the_same_terms(control: Control) -> None:
    heard: list[Terms] = []
    together = threading.Barrier(8)

    def ask(number: int) -> None:
        together.wait()
        heard.append(control.settle(0, Terms(version=number, load=1.0)))

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(heard) == 8
    assert {terms.version for terms in heard} == {heard[0].version}


def test_terms_that_are_settled_hold_whatever_comes_later(
    store: Store, control: Control, tmp_path: Path
) -> None:
    publish_demo(store, tmp_path)
    control.set_load(0.3)
    first = worker(store).terms(control, 0)
    publish_demo(store, tmp_path)
    control.set_load(0.9)
    assert worker(store).terms(control, 0) == first == Terms(version=1, load=0.3)
    assert worker(store).terms(control, 1) == Terms(version=2, load=0.9)


def test_a_fixed_load_is_not_moved(store: Store, control: Control, tmp_path: Path) -> None:
    publish_demo(store, tmp_path)
    control.set_load(0.3)
    assert worker(store, load=0.6).terms(control, 0).load == 0.6


def test_a_store_that_has_gone_back_changes_nothing(
    store: Store, control: Control, tmp_path: Path
) -> None:
    publish_demo(store, tmp_path)
    publish_demo(store, tmp_path)
    assert worker(store).terms(control, 0).version == 2
    store.manifest_path("ticks", 2).unlink()
    terms = worker(store).terms(control, 1)
    assert terms.version == 2
    assert "gone back" in terms.problem
    assert control.plan(2).manifest.version == 2


def test_a_key_that_is_withdrawn_ends_its_plans_with_the_next_micro_batch(
    store: Store, control: Control, tmp_path: Path
) -> None:
    publish_demo(store, tmp_path)
    asked = worker(store)
    assert asked.terms(control, 0).version == 1
    for path in (tmp_path / "keys" / "trusted").iterdir():
        path.unlink()
    for one in (asked, worker(store)):
        assert one.terms(control, 0).version == 1
        proposed, published = one.propose(control.before(1), control)
        assert (proposed.version, published) == (0, None)
        assert list(proposed.refused) == [1]


def test_versions_that_cannot_be_used_are_refused(
    store: Store, control: Control, tmp_path: Path
) -> None:
    publish_demo(store, tmp_path)
    publish_demo(store, tmp_path)
    store.manifest_path("ticks", 2).write_bytes(b"half a manif")
    terms = worker(store).terms(control, 0)
    assert (terms.version, list(terms.refused)) == (1, [2])
    other, _ = worker(store, family="fit").propose(None, None)
    assert other.version == 0
    assert "family must be fit" in other.refused[1]


def test_expiry_is_part_of_the_terms(store: Store, control: Control, tmp_path: Path) -> None:
    signer = SigningKey.load_or_create(tmp_path / "keys")
    store.publish(
        "ticks", demo_plan("sifter"), family="sifter", signer=signer,
        created_at="2026-01-02T03:04:05Z",
        validity={"not_after": "2026-01-03T00:00:00Z", "fallback": "pass"},
    )  # fmt: skip
    assert worker(store).terms(control, 0).expired == "pass"


def test_damaged_terms_are_an_error_and_never_settled_anew(
    store: Store, control: Control, tmp_path: Path
) -> None:
    publish_demo(store, tmp_path)
    worker(store).terms(control, 0)
    (control.root / "terms" / "00000000.json").write_bytes(b'{"version"')
    with pytest.raises(ArtifactError, match="terms of micro-batch 0"):
        worker(store).terms(control, 0)


def progress(batch: int, **changes: Any) -> Any:
    given = {"id": QUERY, "batchId": batch, "numInputRows": 10_000, "inputRowsPerSecond": 5000.0,
             "durationMs": {"triggerExecution": 4000}}  # fmt: skip
    return SimpleNamespace(**{**given, **changes})


def test_progress_sets_the_load_from_the_batch_that_it_is_about(
    store: Store, control: Control, tmp_path: Path
) -> None:
    publish_demo(store, tmp_path)
    pace = Pace(str(tmp_path / "control"), "ticks", store, Law(utilisation=1.0))
    control.settle(0, Terms(version=1, load=0.8))
    control.settle(1, Terms(version=1, load=0.8))
    for _ in range(2):  # heard twice, it says the same
        pace.follow(progress(0))
        assert control.load() == 0.4  # two seconds' rows took four
    pace.follow(progress(1, inputRowsPerSecond=float("nan")))
    pace.follow(progress(1, id="another"))
    assert control.load() == 0.4


def test_counters_of_repeated_partitions_count_once(
    store: Store, control: Control, tmp_path: Path
) -> None:
    publish_demo(store, tmp_path)
    pace = Pace(str(tmp_path / "control"), "ticks", store)
    for batch in range(3):
        control.settle(batch, Terms(version=1, load=0.5))
        control.count(batch, 0, {"kept": 10, "load": 0.5})
        control.count(batch, 0, {"kept": 10, "load": 0.5})
        control.count(batch, 1, {"kept": 5, "load": 0.5})
    pace.follow(progress(2))  # the others were not heard of, as after a crash
    pace.follow(progress(2))
    assert control.totals().counters == {"kept": 45}


def test_old_terms_and_their_plans_are_forgotten(
    store: Store, control: Control, tmp_path: Path
) -> None:
    publish_demo(store, tmp_path)
    for batch in range(3):
        worker(store).terms(control, batch)
    publish_demo(store, tmp_path)
    worker(store).terms(control, 3)
    pace = Pace(str(tmp_path / "control"), "ticks", store)
    pace.follow(progress(3))
    assert control.terms(0) is not None
    control.forget(3)
    assert control.terms(2) is None
    assert control.plan(2).manifest.version == 2
    with pytest.raises(Exception, match="no version 1"):
        control.plan(1)

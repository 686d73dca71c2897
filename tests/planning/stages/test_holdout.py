"""The holdout: copies of a row on both sides, objects and the newest rows together."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from planning.arrays import Columns
from planning.examples import demo_definition
from planning.stages.holdout import Holdout, Landed
from planning.streams import parse

ANY = Holdout(0.25, (), None, 0)


def landed(*sizes: int, digests: tuple[str, ...] = ()) -> Landed:
    return Landed(
        np.repeat(np.arange(len(sizes)), sizes),
        np.concatenate([np.arange(size) for size in sizes]),
        digests or tuple(f"digest {k}" for k in range(len(sizes))),
        sizes,
    )


def test_copies_of_a_row_fall_on_both_sides_in_proportion() -> None:
    kinds = np.arange(24_000) % 24
    held = ANY.chosen({"kind": kinds.astype(float)}, landed(24_000), None)
    shares = [held[kinds == kind].mean() for kind in range(24)]
    # 1,000 copies each; five standard deviations.
    assert max(abs(share - 0.25) for share in shares) < 5 * np.sqrt(0.25 * 0.75 / 1000)


def test_the_split_depends_on_content_and_place_not_on_the_number_of_a_file() -> None:
    values = {"v": np.arange(600.0) % 7}
    one = ANY.chosen(values, landed(300, 300, digests=("a", "b")), None)
    swapped = {"v": np.concatenate([values["v"][300:], values["v"][:300]])}
    other = ANY.chosen(swapped, landed(300, 300, digests=("b", "a")), None)
    assert one.tolist() == [*other[300:], *other[:300]]
    assert one[:300].tolist() != ANY.chosen(values, landed(300, 300), None)[:300].tolist()


def test_objects_stay_whole() -> None:
    ids = np.arange(5_000.0) % 100
    whole = Holdout(0.25, ("id",), None, 0)
    held = whole.chosen({"id": ids, "v": np.arange(5_000.0)}, landed(5_000), None)
    assert all(held[ids == i].all() or not held[ids == i].any() for i in range(100))
    assert 10 < len(set(ids[held])) < 45


@given(
    st.lists(st.floats(-1e6, 1e6), min_size=2, max_size=200).filter(lambda t: len(set(t)) > 1),
    st.floats(0.05, 0.95),
)
def test_the_newest_are_never_older_than_what_is_left(times: list[float], share: float) -> None:
    at = np.array(times)
    holdout = Holdout(share, (), "t", 1)
    times_held = holdout.times_of(at)
    held = holdout.chosen({"t": at}, landed(len(at)), times_held)
    assert held.any()
    assert not held.all()
    assert at[~held].max() < at[held].min()


@pytest.mark.parametrize("parts", [1, 12])
def test_the_newest_share_of_every_part_is_what_was_asked_for(parts: int) -> None:
    times = np.sort(np.random.default_rng(1).uniform(0, 3600, 50_000))
    holdout = Holdout(0.3, (), "t", parts)
    held = holdout.chosen({"t": times}, landed(50_000), holdout.times_of(times))
    assert abs(held.mean() - 0.3) < parts / 4096
    stretches = np.count_nonzero(np.diff(held.astype(int)) == 1)
    assert stretches == parts


def test_without_a_clock_the_last_rows_of_every_file_are_held_out() -> None:
    held = Holdout(0.25, (), None, 1).chosen({"v": np.arange(8.0)}, landed(4, 4), None)
    assert held.tolist() == [False, False, False, True] * 2


@pytest.mark.parametrize(
    ("times", "shortest"), [([5.0] * 800, 0.0), ([np.nan] * 800, 0.0), (np.arange(800.0), 201.0)]
)
def test_without_stretches_of_time_any_row_may_be_held_out(times: Any, shortest: float) -> None:
    columns: Columns = {"t": np.array(times)}
    holdout = Holdout(0.25, (), "t", 1, shortest)
    held = holdout.chosen(columns, landed(800), holdout.times_of(columns["t"]))
    assert held.tolist() == ANY.chosen(columns, landed(800), None).tolist()


@pytest.mark.parametrize(
    ("family", "by", "clock", "parts"),
    [("sifter", (), None, 0), ("lira", ("object_id",), None, 0),
     ("joins", (), "time_s", 1), ("fit", ("period",), "period", 12)],
)  # fmt: skip
def test_each_family_has_its_own_default(family: str, by: Any, clock: Any, parts: int) -> None:
    document = demo_definition(family).model_dump(mode="json")
    del document["gate"]
    chosen = Holdout.of(parse(document, "demo"))
    assert (chosen.by, chosen.clock, chosen.parts) == (by, clock, parts)

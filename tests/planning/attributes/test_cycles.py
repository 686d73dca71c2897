"""The cycle identifier: the paper's example, faults, shuffles, and odd streams."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from benchmarks.attributes.workload import Faults, stream
from planning.attributes import cycles
from planning.attributes.cycles import detect
from planning.errors import InvalidInput

TABLE_I = {
    "A1": ["a1", "a2", "a3"] * 5,
    "A2": ["aaaa", "bbbb", "cccc"] * 5,
    "A3": list("abcdabcdabcdabc"),
    "A4": [29.91, 27.96, 30.09, 30.09, 29.91, 29.80, 29.77, 30.09, 30.18, 29.94, 29.91, 30.00,
           30.00, 30.09, 29.78],
}  # fmt: skip
LENGTHS = [(12,), (3, 4), (4, 6), (2,), (75,), (5,), (250,), (2, 9), (7, 11), (6, 10, 15)]
FAULTS = [
    Faults(),
    Faults(lost=0.05),
    Faults(doubled=0.05),
    Faults(corrupted=0.05),
    Faults(0.05, 0.05, 0.05),
]


@pytest.mark.parametrize("detector", ["votes", "exact"])
def test_example_1_of_the_paper(detector: Any) -> None:
    cycle = detect(TABLE_I, detector=detector)
    assert cycle.cid == ("A1", "A3")
    assert cycle.length == 12
    assert cycle.groups == (("A1", "A2"), ("A3",))
    assert {r.name: r.length for r in cycle.replicated} == {"A1": 3, "A2": 3, "A3": 4}


@pytest.mark.parametrize("faults", FAULTS, ids=str)
def test_the_cid_is_right_under_faults(faults: Faults) -> None:
    """5 kinds of faults x 30 seeds."""
    for seed in range(30):
        rng = np.random.default_rng(seed)
        lengths = LENGTHS[seed % len(LENGTHS)]
        clean = stream(rng, cycles=max(40, 600 // lengths[0]), lengths=lengths, twins=seed % 2,
                       constants=1)  # fmt: skip
        cycle = detect(faults.apply(clean, rng))
        assert cycle.length == np.lcm.reduce(lengths), (seed, lengths)
        assert set(cycle.cid) <= {"key0", "key1", "key2", "twin0"}
        assert "constant0" not in {r.name for r in cycle.replicated}


def test_no_false_cycles_in_shuffled_data() -> None:
    for seed in range(100):
        rng = np.random.default_rng(seed)
        clean = stream(rng, cycles=40, lengths=LENGTHS[seed % len(LENGTHS)], twins=1, constants=1)
        order = rng.permutation(len(clean["key0"]))
        assert detect({n: c[order] for n, c in clean.items()}).cid == ()
        assert detect({n: rng.permutation(c) for n, c in clean.items()}).cid == ()


def test_exact_detection_breaks_at_a_tenth_of_a_percent(rng: np.random.Generator) -> None:
    """Why the paper's detector is not the default."""
    faulty = Faults(lost=0.001).apply(stream(rng, cycles=1000, lengths=(12,)), rng)
    assert detect(faulty, detector="exact").cid == ()
    assert detect(faulty).length == 12


def test_constants_and_runs_are_not_replicated() -> None:
    day = np.repeat(np.tile(["day", "night"], 50), 12)
    cycle = detect({"constant": np.ones(1200), "mostly": np.r_[np.zeros(1190), 1:11], "day": day})
    assert cycle.cid == ()
    assert cycle.length == 1


def test_nested_loops_need_both_attributes() -> None:
    i = np.arange(3000)
    cycle = detect({"row": (i // 3) % 4, "column": i % 3})
    assert set(cycle.cid) == {"row", "column"}
    assert cycle.length == 12


def test_equal_length_is_not_one_to_one() -> None:
    """A dependent attribute that repeats values is replicated but cannot stand for the CID."""
    i = np.arange(2400)
    cycle = detect({"region": np.array(list("NNSSEE"))[i % 6], "station": i % 6})
    assert cycle.cid == ("station",)
    region = next(r for r in cycle.replicated if r.name == "region")
    assert (region.length, region.identifies) == (6, False)
    assert cycle.groups == (("station",),)


def test_a_divisor_adds_nothing_to_the_cid() -> None:
    i = np.arange(2400)
    cycle = detect({"parity": i % 2, "station": i % 12})
    assert cycle.cid == ("station",)
    assert cycle.length == 12


def test_lengths_combine_by_least_common_multiple() -> None:
    """The paper multiplies, which is right for coprime lengths only."""
    i = np.arange(2400)
    coprime, sharing = {"a": i % 3, "b": i % 4}, {"a": i % 4, "b": i % 6}
    assert [detect(coprime, detector=d).length for d in ("votes", "exact")] == [12, 12]
    assert [detect(sharing, detector=d).length for d in ("votes", "exact")] == [12, 24]


def test_the_first_of_several_candidates_is_chosen() -> None:
    i = np.arange(2400)
    cycle = detect({"code": (i % 12) * 7, "name": np.array([f"s{k}" for k in i % 12])})
    assert cycle.cid == ("code",)
    assert cycle.groups == (("code", "name"),)


@pytest.mark.parametrize("rows", [0, 1, 2, 3])
def test_a_handful_of_tuples_shows_no_cycle(rows: int) -> None:
    assert detect({"a": np.arange(rows), "b": np.arange(rows) % 2}).cid == ()


def test_nulls_are_a_value(rng: np.random.Generator) -> None:
    key = np.array([1.0, 2.0, np.nan])[np.arange(600) % 3]
    assert detect({"key": key, "noise": rng.random(600)}).length == 3


def test_an_unknown_detector_is_refused() -> None:
    with pytest.raises(InvalidInput, match="detector must be votes or exact"):
        detect(TABLE_I, detector="guess")  # type: ignore[arg-type]


def test_votes_agree_with_a_plain_count(rng: np.random.Generator) -> None:
    codes = rng.integers(0, 5, 400)
    codes[rng.random(400) < 0.7] = 2
    votes = cycles.cast_votes("x", codes, 5)
    for v in range(5):
        after = codes[1:][codes[:-1] == v]
        assert votes.transitions[v] == len(after)
        counts = np.bincount(after, minlength=5)
        if 2 * counts.max(initial=0) > len(after):
            assert votes.successor[v] == counts.argmax()
            assert votes.votes[v] == counts.max()
        else:
            assert votes.successor[v] == -1


def test_the_real_stream_cycles_over_its_stations(weather: dict[str, Any]) -> None:
    cycle = detect(weather)
    assert cycle.cid == ("station",)
    assert cycle.length == 12

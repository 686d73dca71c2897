"""The measurements: the paper's half-hour example of re-evaluation, and the recorded stream."""

from __future__ import annotations

from pathlib import Path

from benchmarks.attributes import experiments, recorded
from planning.attributes.statistics import TupleFormat

MINUTE = 60.0


def half_hours(now_s: float) -> tuple[str, ...]:
    """A is least informative in the first half of every hour, B in the second."""
    return ("A",) if now_s % (60 * MINUTE) < 30 * MINUTE else ("B",)


def test_the_half_hour_example() -> None:
    seen = experiments.notices(half_hours, 5 * MINUTE, 5 * MINUTE, 60 * MINUTE)
    assert [t / MINUTE for t, _ in seen[:4]] == [5, 10, 20, 40]
    assert [shed for _, shed in seen[:4]] == [("A",), ("A",), ("A",), ("B",)]
    assert seen[4][0] == 45 * MINUTE, "the interval is reset after a change"


def test_the_hourly_fixed_check_never_notices() -> None:
    seen = experiments.notices(
        half_hours, 5 * MINUTE, 60 * MINUTE, 24 * 60 * MINUTE, adaptive=False
    )
    assert len(seen) == 24
    assert {shed for _, shed in seen} == {("A",)}


def test_readings_take_four_bytes_and_categories_one() -> None:
    for definition in (recorded.definition(), recorded.channel_definition()):
        layout = TupleFormat.of(definition)
        assert set(zip(layout.kinds, layout.sizes, strict=True)) == {("number", 4), ("category", 1)}


def test_the_definition_names_every_category_that_occurs(shared_data: Path) -> None:
    columns = recorded.load()
    for name in ("station", "wind_direction"):
        assert set(columns[name]) - {None} == set(recorded.CATEGORIES[name])


def test_three_streams_take_turns_on_the_channel(shared_data: Path) -> None:
    channel = recorded.multiplexed(recorded.load(0, 2))
    assert channel["stream"].tolist() == [*["air"] * 12, *["climate"] * 12, *["storm"] * 12] * 2
    assert set(channel) == set(recorded.channel_definition().attribute_names)

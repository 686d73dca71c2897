"""Plans with guarantees: the best by priority at every load, and kept by the running shedder."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest
from scipy.optimize import Bounds, LinearConstraint, milp

from benchmarks.attributes import recorded
from benchmarks.attributes.workload import stream
from planning import rehearsal
from planning.attributes import path, planner
from planning.attributes.parameters import Parameters
from planning.attributes.plan import Plan
from planning.attributes.planner.menu import sources_of, total_weight
from planning.attributes.simulate import Trace
from planning.attributes.statistics import build, profile_observed
from planning.errors import ArtifactError, DefinitionError
from planning.examples import demo_definition, demo_samples, demo_statistics
from planning.streams import StreamDefinition

SLACK = 1e-9


def demo(**parameters: Any) -> StreamDefinition:
    return demo_definition("attributes").with_parameters(parameters)


# The best at every load ------------------------------------------------------------------------


def random_case(seed: int) -> tuple[Any, Parameters]:
    """A small stream with guarantees of random limits and priorities."""
    rng = np.random.default_rng(seed)
    samples = stream(rng, 60, (int(rng.integers(3, 7)),), tuple(rng.uniform(0.3, 1.0, 3)))
    method = "on_change" if seed % 2 else "periods"
    guarantees: dict[str, Any] = {}
    for name in rng.permutation(["value0", "value1", "value2"])[: rng.integers(1, 4)].tolist():
        limits = {"max_age": int(rng.integers(1, 9)), "max_error": float(rng.uniform(0.05, 2.0))}
        kinds = ["max_age", "max_error"] if method == "on_change" else ["max_age"]
        asked = {kind: limits[kind] for kind in kinds if rng.random() < 0.6 or kind == kinds[-1]}
        guarantees[name] = {**asked, "priority": int(rng.integers(0, 3))}
    parameters = Parameters.model_validate({
        "method": method, "guarantees": guarantees, "cid": ["key0"], "frontier_points": 4096,
        "periods": [1, 2, 4, 6], "refresh_reports": int(rng.choice([0, 12])),
    })  # fmt: skip
    return profile_observed(samples, parameters), parameters


def choices(statistics: Any, parameters: Parameters) -> list[tuple[float, tuple[float, ...]]]:
    """Every choice there is: the load it needs, and its excesses by priority, then its loss."""
    (source,) = sources_of(statistics, parameters)
    ranks = sorted({limit.priority for limit in source.limits.values()}, reverse=True)
    full, found = source.stream.full_bytes, []
    for table in source.tables():
        for taken in itertools.product(*(range(len(menu)) for menu in table.menus)):
            worst = dict.fromkeys(ranks, 0.0)
            for item, (j, o) in enumerate(zip(source.stream.items.tolist(), taken, strict=True)):
                if j in source.limits:
                    rank = source.limits[j].priority
                    worst[rank] = max(worst[rank], table.excess[item][o])
            header = source.stream.header_bytes * any(
                menu[o] for menu, o in zip(table.menus, taken, strict=True)
            )
            cost = sum(c[o] for c, o in zip(table.costs, taken, strict=True)) / source.menu.units
            spent = cost + table.mode.always * (source.stream.kept_bytes + header)
            loss = sum(v[o] for v, o in zip(table.losses, taken, strict=True))
            loss += source.kept_loss(table.mode.thinning)
            ratio = spent / full * source.tuple_share(table.mode)
            found.append((ratio, (*worst.values(), loss / total_weight([source]))))
    return found


@pytest.fixture
def few_bands(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fewer options, so that all choices can be listed."""
    from planning.attributes.planner import menu
    from planning.attributes.statistics import profile, sums

    bands = (0.0, 0.05, 0.3, 1.0)
    for module in (menu, sums):
        monkeypatch.setattr(module, "BANDS", bands)
    curves = (("lag_error", len(sums.LAGS)), ("band_rate", 4), ("band_error", 4))
    monkeypatch.setattr(profile, "CURVES", curves)


@pytest.mark.parametrize("seed", range(40))
def test_every_point_is_the_best_of_all_choices_by_priority(seed: int, few_bands: None) -> None:
    statistics, parameters = random_case(seed)
    every = sorted(choices(statistics, parameters))
    plan = planner.plan_profiles(statistics, parameters)
    (source,) = sources_of(statistics, parameters)
    ranks = sorted({limit.priority for limit in source.limits.values()}, reverse=True)
    assert plan.complete
    assert plan.ratio[0] == pytest.approx(every[0][0], abs=SLACK)
    loads = np.random.default_rng(seed).uniform(float(plan.ratio[0]), 1.0, 40).tolist()
    near = [float(load) + step for load in plan.ratio[:: max(1, len(plan.ratio) // 40)]
            for step in (0.0, -1e-7)]  # fmt: skip
    for load in (*loads, *near):
        if not plan.ratio[0] <= load < 1.0:
            continue
        best = min(value for ratio, value in every if ratio <= load + SLACK)
        point = plan.point(load)
        worst = dict.fromkeys(ranks, 0.0)
        for j, option in zip(source.stream.items.tolist(), plan.choice[point], strict=True):
            if j in source.limits:
                over = source.excess(int(plan.thinning[point, 0]), j, int(option))
                rank = source.limits[j].priority
                worst[rank] = max(worst[rank], over)
        got = (*worst.values(), float(plan.loss[point]))
        assert got == pytest.approx(best, rel=1e-9, abs=1e-9), load


@pytest.mark.parametrize("seed", range(12))
def test_the_frontier_under_caps_is_that_of_highs(seed: int) -> None:
    """One mode as an integer program, solved by HiGHS."""
    statistics, parameters = random_case(seed)
    (source,) = sources_of(statistics, parameters)
    rng = np.random.default_rng(seed)
    tables = source.tables()
    table = tables[int(rng.integers(0, 3))] if seed % 3 else tables[-1]
    caps = {limit.priority: float(rng.uniform(0.0, 3.0)) for limit in source.limits.values()}
    allowed = source.within(table, caps)
    if allowed is None:
        return
    frontier = path.solve(allowed.costs, allowed.losses)
    sizes = [len(menu) for menu in allowed.menus]
    cost, loss = (np.concatenate([*part]) for part in (allowed.costs, allowed.losses))
    one = np.repeat(np.eye(len(sizes)), sizes, axis=1)
    for budget in rng.uniform(frontier.weight[0], frontier.weight[-1] + 1, 6):
        rows = [LinearConstraint(one, 1, 1), LinearConstraint(cost, -np.inf, budget)]
        best = milp(
            loss, constraints=rows, integrality=np.ones(len(loss)), bounds=Bounds(0, 1),
            options={"mip_rel_gap": 0.0},
        )  # fmt: skip
        ours = frontier.loss[frontier.best(budget)]
        assert ours <= best.fun + 1e-9
        assert ours == pytest.approx(best.fun, abs=2e-6)  # HiGHS stops within 1e-6


@pytest.mark.parametrize("seed", range(20))
def test_a_guarantee_holds_from_where_the_plan_says(seed: int) -> None:
    statistics, parameters = random_case(seed)
    plan = planner.plan_profiles(statistics, parameters)
    loads = np.linspace(0.0, 1.0, 400).tolist()
    for place, guarantee in enumerate(plan.guarantees):
        above = [plan.kept(z)[place] for z in loads if z >= guarantee.holds_from]
        assert max(above) <= guarantee.value * (1 + 1e-9)
        below = np.nextafter(guarantee.holds_from, 0.0) - 4e-9
        if guarantee.holds_from > plan.ratio[0]:
            assert plan.kept(below)[place] > guarantee.value


def test_streams_of_a_channel_have_their_own_guarantees() -> None:
    i, rng = np.arange(960), np.random.default_rng(2)
    kind = np.array(["air", "sea"])[i // 6 % 2]
    samples = {"kind": kind, "key0": i % 6, "wind": rng.normal(size=960),
               "wave": np.cumsum(rng.normal(size=960))}  # fmt: skip
    limits = {"wind": {"max_age": 6, "streams": {"sea": {"max_age": 2, "priority": 3}}}}
    for sharing in ("pooled", "proportional"):
        parameters = Parameters.model_validate({
            "method": "periods", "stream_attribute": "kind", "inter_stream": sharing,
            "guarantees": limits, "cid": ["key0"],
        })  # fmt: skip
        plan = planner.plan_profiles(profile_observed(samples, parameters), parameters)
        asked = [(one.name, one.value, one.priority) for one in plan.guarantees]
        assert asked == [("attribute sea.wind", 2.0, 3), ("attribute air.wind", 6.0, 0)]
        sea, air = plan.guarantees
        for load in np.linspace(0.05, 0.999, 60).tolist():
            kept = plan.kept(load)
            assert load < sea.holds_from or kept[0] <= 2.0
            assert load < air.holds_from or kept[1] <= 6.0


def test_points_that_guarantees_need_stay_when_others_are_left_out() -> None:
    limits = {"temperature": {"max_age": 4}, "humidity": {"max_error": 1.0, "priority": 2}}
    plans = [planner.plan(demo_statistics("attributes"), demo(guarantees=limits, frontier_points=n))
             for n in (24, 4096)]  # fmt: skip
    few, all_points = plans
    assert len(few.ratio) < len(all_points.ratio)
    assert not few.complete
    assert few.guarantees == all_points.guarantees
    for load in np.linspace(float(few.ratio[0]), 0.999, 200).tolist():
        over = [max(0.0, p.kept(load)[0] - p.guarantees[0].value) for p in plans]
        assert over[0] == pytest.approx(over[1], abs=1e-9), load


# What is refused and what is said ----------------------------------------------------------------


@pytest.mark.parametrize(
    ("limits", "parameters", "message"),
    [
        ({"machine": {"max_age": 2}}, {"cid": ["machine"]}, "one that every sent tuple has"),
        ({"nothing": {"max_age": 2}}, {}, "among the attributes"),
        ({"humidity": {}}, {}, "max_age or max_error"),
        ({"humidity": {"max_age": 2}}, {"method": "paper"}, "method paper"),
        ({"humidity": {"max_error": 2}}, {"method": "periods"}, "method periods"),
        ({"state": {"max_error": 2}}, {"must_keep": []}, "a category"),
        ({"humidity": {"streams": {"x": {"max_age": 2}}}}, {}, "stream_attribute"),
        ({"humidity": {"max_age": 0}}, {}, "max_age"),
        ({"humidity": {"max_error": math.nan}}, {}, "max_error"),
    ],
)
def test_a_guarantee_that_cannot_be_given_is_refused(
    limits: Any, parameters: dict[str, Any], message: str
) -> None:
    with pytest.raises((DefinitionError, ValueError), match=message):
        demo(guarantees=limits, **parameters)


def test_too_many_different_ages_are_refused() -> None:
    names = ("temperature", "pressure", "humidity", "vibration", "power", "speed")
    ages = {name: {"max_age": 20 + k} for k, name in enumerate(names)}
    assert demo(guarantees=ages).parameters.young_ages == (20, 21, 22, 23, 24)
    names = dict(zip(demo().attributes[2].values or (), (5, 6), strict=False))
    streams = {name: {"max_age": age} for name, age in names.items()}
    many = {**ages, "speed": {"streams": streams, "max_age": 7}}
    with pytest.raises(DefinitionError, match="different max_age"):
        demo(guarantees=many, stream_attribute="machine")


def test_a_guarantee_out_of_reach_is_a_warning_with_a_remedy() -> None:
    limits = {"temperature": {"max_age": 2}, "humidity": {"max_age": 8, "priority": 1}}
    definition = demo(guarantees=limits, capacity_ratio=0.15, method="periods")
    statistics = demo_statistics("attributes")
    plan = planner.plan(statistics, definition)
    (warning,) = (w for w in planner.warnings(plan, statistics, definition) if "temperature" in w)
    (guarantee,) = (one for one in plan.guarantees if one.value == 2.0)
    kept = plan.kept(0.15)[plan.guarantees.index(guarantee)]
    assert f"{kept:.4g} reports are, {kept / 2 - 1:.0%} more" in warning
    assert f"holds from C/R {guarantee.holds_from:.3g} on" in warning
    assert f"allow a max_age of {kept:.4g}" in warning


# The two encodings -------------------------------------------------------------------------------


def guaranteed_plan() -> Plan:
    limits = {"temperature": {"max_age": 4}, "humidity": {"max_error": 1.0, "priority": 2}}
    return planner.plan(demo_statistics("attributes"), demo(guarantees=limits))


def test_guarantees_survive_both_encodings() -> None:
    plan = guaranteed_plan()
    for again in (Plan.from_bytes(plan.to_bytes()), Plan.from_document(plan.to_document())):
        assert again.guarantees == plan.guarantees
        assert again.kept(0.4) == plan.kept(0.4)
        assert again.to_bytes() == plan.to_bytes()
    plain = planner.plan(demo_statistics("attributes"), demo())
    assert "guarantees" not in plain.to_document()


@pytest.mark.parametrize(
    "damage",
    [
        {"name": "attribute nothing"}, {"name": "attribute state"}, {"limit": "min_age"},
        {"value": 0.0}, {"value": math.nan}, {"value": math.inf}, {"holds_from": -0.1},
        {"holds_from": math.nan}, {"holds_from": 2.5}, {"priority": 0.5},
    ],
)  # fmt: skip
def test_damaged_guarantees_are_refused(damage: dict[str, Any]) -> None:
    document = guaranteed_plan().to_document()
    document["guarantees"][0].update(damage)
    with pytest.raises(ArtifactError):
        Plan.from_document(document)


def test_any_damaged_byte_gives_a_plan_that_works_or_an_error() -> None:
    payload = guaranteed_plan().to_bytes()
    rng = np.random.default_rng(0)
    for _ in range(300):
        damaged = bytearray(payload)
        damaged[rng.integers(4, len(payload))] ^= 1 << int(rng.integers(0, 8))
        try:
            plan = Plan.from_bytes(bytes(damaged))
        except ArtifactError:
            continue
        for load in (0.0, 0.3, 1.0):
            assert all(map(math.isfinite, plan.kept(load)))
            plan.promises(plan.at(load))


# The running shedder -----------------------------------------------------------------------------


def offered(plan: Plan, trace: Trace, load: Any, size: int, rows: int) -> tuple[Any, Any]:
    """Return what a node lets through, and the load that each tuple was decided at."""
    rows = min(rows, trace.rows)
    at = rehearsal.along(load, rows)
    node = rehearsal.Rehearsal(plan, "attributes", float(at[0]))
    starts = range(0, rows, size)
    masks = [node.offer(trace.batch(a, min(a + size, rows)), float(at[a])) for a in starts]
    return np.concatenate(masks), np.repeat([at[a] for a in starts], size)[:rows]


def late(plan: Plan, trace: Trace, keep: Any, load: Any) -> list[tuple[int, int, float]]:
    """Per guarantee: reports at which it is broken, all of them, and the worst value.

    Counted from the second window on, where the load of the last window was above the floor and
    did not fall.
    """
    rows, window, found = len(keep), plan.window, []
    falls = np.flatnonzero(np.diff(load, prepend=load[0]) < 0)
    row = np.arange(rows)
    since = row - np.append(-rows, falls)[np.searchsorted(falls, row, "right")]
    for one, (s, j) in zip(plan.guarantees, plan.protected, strict=True):
        fine = (since > 3 * window) & (row >= 2 * window) & (load >= one.holds_from)
        broken, count, worst = 0, 0, 0.0
        for entity in np.unique(trace.slots[:rows]).tolist():
            age, held = -1, math.nan
            mine = (trace.slots[:rows] == entity) & (trace.streams[:rows] == s)
            for r in np.flatnonzero(mine).tolist():
                value = float(trace.values[r, j])
                age = 0 if keep[r, j] else age + (age >= 0)
                held = value if keep[r, j] else held
                got = age + 1.0 if one.limit == "max_age" else abs(value - held)
                if fine[r] and age >= 0 and not math.isnan(got):
                    count += 1
                    broken += got > one.value * (1 + 1e-9)
                    worst = max(worst, got)
        found.append((broken, count, worst))
    return found


def machines(method: str, limits: Any) -> tuple[Plan, Trace]:
    definition = demo(guarantees=limits, method=method)
    plan = planner.plan(demo_statistics("attributes"), definition)
    samples = demo_samples("attributes", batch=1)
    return plan, Trace.of(plan, samples, definition.parameters.order_by)


def jumps(floor: float, seed: int) -> tuple[float, ...]:
    return tuple(np.random.default_rng(seed).uniform(floor, 1.0, 12))


@pytest.mark.parametrize("size", [1, 100, 2_000, 20_000])
@pytest.mark.parametrize("method", ["on_change", "periods"])
def test_ages_and_errors_are_kept_on_samples_not_seen(method: str, size: int) -> None:
    limits: dict[str, Any] = {"temperature": {"max_age": 4}, "power": {"max_age": 6}}
    if method == "on_change":
        limits["humidity"] = {"max_error": 1.0, "priority": 1}
    plan, trace = machines(method, limits)
    floor = max(one.holds_from for one in plan.guarantees) + 1e-6
    rows = 3_000 if size == 1 else 12_000
    for load in (floor, min(1.2 * floor, 0.99), 0.8, jumps(floor, size)):
        keep, at = offered(plan, trace, load, size, rows)
        for one, (broken, count, worst) in zip(
            plan.guarantees, late(plan, trace, keep, at), strict=True
        ):
            assert count > 200 or not isinstance(load, float)
            assert broken <= 0.001 * count, (load, str(one), broken, count, worst)
            if one.limit == "max_age":
                assert worst <= one.value + 2.0, (load, str(one))


def test_ages_and_errors_of_real_weather_are_kept(shared_data: Any) -> None:
    limits = {"pm25_ugm3": {"max_age": 3}, "temperature_c": {"max_error": 2.0, "priority": 1},
              "rain_mm": {"max_age": 6}}  # fmt: skip
    definition = recorded.definition(guarantees=limits)
    plan = planner.plan(build(recorded.load(0, 3000), definition), definition)
    trace = Trace.of(plan, recorded.load(3000, 1000))
    floor = max(one.holds_from for one in plan.guarantees) + 1e-6
    for size in (1, 100, 20_000):
        for load in (floor, 0.5, jumps(floor, size)):
            keep, at = offered(plan, trace, load, size, 3_000 if size == 1 else 12_000)
            for one, (broken, count, _) in zip(
                plan.guarantees, late(plan, trace, keep, at), strict=True
            ):
                assert broken <= 0.001 * count, (size, load, str(one), broken, count)


def test_without_its_guarantee_the_same_plan_would_break_it() -> None:
    """So that the tests above can fail."""
    guarded, trace = machines("on_change", {"temperature": {"max_age": 4}})
    plain = planner.plan(demo_statistics("attributes"), demo())
    keep, at = offered(plain, trace, 0.4, 2_000, 12_000)
    (broken, count, _), = late(guarded, trace, keep, at)
    assert broken > 0.05 * count


def test_the_window_is_never_exceeded_by_what_is_guaranteed() -> None:
    limits = {"temperature": {"max_age": 2}, "power": {"max_error": 0.1}}
    plan, trace = machines("on_change", limits)
    sizes = plan.streams[0].sizes
    for load in (0.1, 0.3, jumps(0.05, 1)):
        keep, at = offered(plan, trace, load, 100, 6_000)
        sent = (keep * sizes).sum(axis=1)
        window = np.convolve(sent, np.ones(plan.window, dtype=np.int64))[: len(sent)]
        room = np.array([plan.capacity_bytes(float(z)) for z in at])
        assert ((window <= room) | (sent == 0) | (room < 0)).all()

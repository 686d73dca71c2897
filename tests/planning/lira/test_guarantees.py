"""Largest throttlers where queries look: as good as HiGHS, and kept by nodes, whatever comes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.lira.reference import Reference, looked_at, random_stream
from planning.errors import ArtifactError, DefinitionError, InfeasiblePlan, Mistake
from planning.guarantees import NOWHERE, Guarantees
from planning.lira.codec import messages
from planning.lira.plan import Plan
from planning.lira.planner import _levels_by_kind, solver_status, warnings
from planning.lira.planner import plan as make_plan
from planning.lira.shedder import Shedder
from planning.lira.simulate import evaluate, in_order, server_view
from planning.lira.stations import NodeMap, Stations, broadcasts
from planning.lira.statistics import build
from planning.streams import StreamDefinition, parse

NAMES = ("object_id", "time", "x", "y", "speed")
Rows = dict[str, np.ndarray]


def with_terms(definition: StreamDefinition, terms: list[dict[str, Any]]) -> StreamDefinition:
    """Return the definition whose first queries ask for something."""
    document = definition.model_dump(mode="json", exclude_unset=True)
    for query, term in zip(document["queries"]["inline"], terms, strict=False):
        query.update(term)
    return parse(document, "cars.yaml")


@pytest.fixture(scope="module")
def asked(define) -> StreamDefinition:
    terms = [{"max_delta": 12.0, "priority": 2}, {"max_delta": 30.0}, {"max_delta": 500.0}]
    return with_terms(define(), terms)


@pytest.fixture(scope="module")
def kept(statistics, asked) -> Plan:
    return make_plan(statistics, asked)


@pytest.mark.parametrize("block", range(6))
def test_as_good_as_highs_at_every_load(block):
    """Lexicographic by priority, then the objective, on the convex f, within the stated error."""
    for seed in range(10 * block, 10 * block + 10):
        rng = np.random.default_rng(seed)
        statistics, definition = random_stream(rng)
        plan = make_plan(statistics, definition)
        path = plan.guaranteed
        assert path is not None
        binding = [a for a in looked_at(plan, definition) if a[1] < plan.frame.high]
        reference = Reference(plan, binding)
        for z in rng.uniform(reference.floor + 1e-6, 1.0, 20).tolist():
            places = path.throttlers(z)
            by_level = plan.axis.thresholds(places)
            np.testing.assert_array_equal(by_level, plan.near(z).by_level)
            least = reference.least(z)
            for priority, possible in zip(reference.priorities, least, strict=True):
                own = max(by_level[i] / most for i, most, p in binding if p == priority) - 1.0
                assert own <= possible + path.error + 1e-6
                assert own <= 1e-9 or possible > 1e-9
            ours = float(reference.importance @ places[reference.levels])
            lost = ours - reference.inaccuracy(z, least)
            assert lost <= (path.error + 1e-6) * reference.scale
            spent = plan.weight @ plan.axis.curve.convex(places) / plan.weight.sum()
            assert spent <= z + 1e-7
            assert np.ptp(places) <= plan.fairness_threshold + 1e-9
            assert by_level.min() >= plan.frame.low
            assert by_level.max() <= plan.frame.high


@pytest.mark.parametrize("block", range(4))
def test_guarantees_hold_from_the_stated_load_on_within_the_measured_budget(block):
    for seed in range(100 + 10 * block, 110 + 10 * block):
        rng = np.random.default_rng(seed)
        plan = make_plan(*random_stream(rng))
        loads = np.concatenate([rng.random(40), [g.holds_from for g in plan.guarantees], [0.0, 1]])
        lowest = plan.measured(plan.near(0.0).by_level)
        before = np.full(plan.ratio.size, np.inf)
        for z in np.sort(loads[loads <= 1.0]).tolist():
            setting = plan.at(z)
            assert plan.measured(setting.by_level) <= max(z, lowest) + 1e-9
            assert setting.expenditure <= max(z, lowest) + 1e-9
            assert (setting.by_level <= before + 1e-9).all()
            before = setting.by_level
            for guarantee, value in zip(plan.guarantees, plan.kept(z), strict=True):
                if z >= guarantee.holds_from:
                    assert value <= guarantee.value
                elif z < guarantee.holds_from - 1e-6:
                    assert value > guarantee.value * (1 - 1e-6)


def test_priorities_come_first(define, statistics):
    """Of two that cannot both be kept, the one of the higher priority holds further down."""
    floors = []
    for first, second in ((2, 1), (1, 2), (0, 0)):
        terms = [{"max_delta": 10.0, "priority": p} for p in (first, second)]
        plan = make_plan(statistics, with_terms(define(fairness_threshold=95), terms))
        by_name = {g.name: g.holds_from for g in plan.guarantees}
        floors.append((by_name["query 0"], by_name["query 1"]))
    assert floors[0][0] < floors[0][1]
    assert floors[1][1] < floors[1][0]
    assert floors[2][0] == pytest.approx(floors[2][1], abs=1e-6)
    assert floors[0][0] < floors[2][0] <= floors[0][1] + 1e-6


def test_a_guarantee_costs_others_and_not_the_budget(plan, kept, asked):
    assert isinstance(kept, Guarantees)
    assert [g.name for g in kept.guarantees] == ["query 0", "query 1", "query 2"]
    assert plan.guarantees == plan.kept(0.5) == ()
    low = max(g.holds_from for g in kept.guarantees)
    assert low < 0.5
    looks = kept.guaranteed.looks[0][kept.raster]
    assert plan.at(low).by_level[plan.raster][looks].max() > 1.5 * 12.0
    assert kept.at(low).by_level[kept.raster][looks].max() <= 12.0
    assert kept.at(low).expenditure <= low
    assert kept.guarantees[2].holds_from == 0.0  # above Δmax: it always holds
    assert solver_status(kept, asked) == "heuristic"
    assert 0.0 < kept.summary()["within"] <= 3e-3


def test_regions_end_where_guarantees_do(kept, asked):
    """The cells that a query touches, and no others, are bound by it."""
    width, height = kept.frame.cell_size
    for query, looks in zip(asked.queries.inline, kept.guaranteed.looks, strict=True):
        if query.max_delta > kept.frame.high:
            continue
        iy, ix = np.nonzero(looks[kept.raster])
        (a, c), (b, d) = query.ranges["x"], query.ranges["y"]
        assert (int(a / width), int(c / width)) == (ix.min(), ix.max())
        assert (int(b / height), int(d / height)) == (iy.min(), iy.max())
        assert ix.size == np.unique(ix).size * np.unique(iy).size


def inside(asked: StreamDefinition, rows: Rows) -> list[np.ndarray]:
    found = []
    for query in asked.queries.inline:
        if query.max_delta is not None:
            (a, c), (b, d) = query.ranges["x"], query.ranges["y"]
            here = (rows["x"] >= a) & (rows["x"] <= c) & (rows["y"] >= b) & (rows["y"] <= d)
            found.append((query, here))
    return found


def halves(rows: Rows) -> tuple[Rows, Rows]:
    names = np.random.default_rng(3).permutation(np.unique(rows["object_id"]))
    learn = np.isin(rows["object_id"], names[: len(names) // 2])
    return ({n: v[some] for n, v in rows.items()} for some in (learn, ~learn))


def recorded(folder: Path, file: str, time: str) -> Rows:
    import pyarrow.parquet as parquet

    path = folder / "lira" / file
    if not path.is_file():
        pytest.skip(f"{path} is not there")
    table = parquet.read_table(path)
    columns = ("object_id", time, "x_m", "y_m", "speed_mps")
    values = [table.column(c).to_numpy() for c in columns]
    values[1] = values[1].astype("int64") / 1e9 if time == "timestamp" else values[1]
    rows = {n: np.asarray(v, dtype=np.float64) for n, v in zip(NAMES, values, strict=True)}
    return rows | {n: rows[n] - rows[n].min() for n in ("time", "x", "y")}


@pytest.fixture(scope="module", params=["cars", "demo", "buses", "vessels"])
def world(request, samples, asked, shared_data) -> tuple[Plan, Rows, StreamDefinition]:
    """Return a plan with guarantees from some objects, and the tracks of others."""
    if request.param == "cars":
        past, fresh = halves(samples)
        return make_plan(build(past, asked), asked), in_order(fresh), asked
    if request.param == "demo":
        from planning.examples import demo_definition, demo_samples, demo_statistics
        from planning.query_files import written_queries
        from planning.sections import Queries

        fleet = demo_definition("lira")
        queries = written_queries(fleet)
        for query, most in zip(queries, (15.0, 40.0, 20.0), strict=False):
            query |= {"max_delta": most, "priority": int(most == 15.0)}
        fleet = fleet.model_copy(update={"queries": Queries(inline=queries)})
        fresh = demo_samples("lira", batch=1)
        sound = np.isfinite(fresh["x"]) & (fresh["y"] < 1e6)
        fresh = {n: v[sound] for n, v in fresh.items()}
        return make_plan(demo_statistics("lira"), fleet), in_order(fresh), fleet
    buses = request.param == "buses"
    file = "austin_buses" if buses else "vessels_gulf_of_mexico_20220103"
    rows = recorded(shared_data, f"{file}.parquet", "time_s" if buses else "timestamp")
    wide, most = (4000.0, 120.0) if buses else (60_000.0, 60.0)
    rng, side = np.random.default_rng(5), float(max(rows["x"].max(), rows["y"].max())) + 1.0
    inline: list[dict[str, Any]] = []
    for i in rng.integers(0, len(rows["x"]), 40).tolist():
        ranges = {n: [max(rows[n][i] - wide, 0.0), min(rows[n][i] + wide, side)] for n in "xy"}
        inline.append({"ranges": ranges})
    for i in range(3):
        inline[i] |= {"max_delta": most * (i + 1), "priority": i}
    thresholds = (50, 1500, 1000) if buses else (20, 500, 400)
    names = ("lowest_threshold", "highest_threshold", "fairness_threshold")
    document = {
        "stream": "tracks", "family": "lira", "queries": {"inline": inline},
        "attributes": [{"name": n, "domain": [0, side if n in "xy" else 1e9]} for n in NAMES],
        "parameters": {"regions": 100, **dict(zip(names, thresholds, strict=True))},
    }  # fmt: skip
    definition = parse(document, "tracks.yaml")
    past, fresh = halves(rows)
    return make_plan(build(past, definition), definition), in_order(fresh), definition


def test_nodes_keep_guarantees_on_fresh_positions(world):
    """Where a guaranteed query looks, nobody is believed further off than its ``max_delta``."""
    plan, rows, definition = world
    offered = {n: rows[n] for n in NAMES[:4]}
    held = {g.name: g for g in plan.guarantees}
    tried = 0
    for z in (0.3, 0.5, 0.8):
        keep = Shedder(plan, z, correct=False).offer(offered)
        view = server_view(rows, keep, 100.0)
        off = np.hypot(view[:, 0] - rows["x"], view[:, 1] - rows["y"])
        for number, (query, here) in enumerate(inside(definition, rows)):
            guarantee = held[f"query {query.name or number}"]
            if z >= guarantee.holds_from and here.any():
                assert off[here].max() <= guarantee.value * (1 + 1e-12)
                tried += 1
    assert tried >= 3


def test_no_correction_raises_a_throttler_above_a_guarantee_that_holds(world):
    """Whatever the traffic: what cannot be paid for waits, and the budget is never exceeded."""
    plan, rows, definition = world
    lowest = max(g.holds_from for g in plan.guarantees)
    assert lowest < 0.9
    shedder = Shedder(plan, 1.0)
    rng = np.random.default_rng(1)
    half = len(rows["x"]) // 2
    for begin in range(0, len(rows["x"]), 1500):
        z = float(rng.uniform(lowest, 1.0)) if begin < half else lowest
        shedder.set_load(z)
        part = {n: rows[n][begin : begin + 1500] for n in NAMES[:4]}
        shedder.offer(part)
        limits = shedder._limits[plan.raster]
        width, height = plan.frame.cell_size
        x = np.minimum((part["x"] / width).astype(int), plan.frame.side - 1)
        y = np.minimum((part["y"] / height).astype(int), plan.frame.side - 1)
        for query, here in inside(definition, part):
            assert (limits[y[here], x[here]] <= query.max_delta).all()
        shown = shedder.measures().values["throttler_meters"]
        assert (shown <= shedder._limits + 1e-4).all()
        counters = shedder.counters
        assert counters.sent <= counters.due


def test_the_correction_would_have_raised_it(kept):
    lowest = max(g.holds_from for g in kept.guarantees)
    shedder = Shedder(kept, lowest)
    shedder._follow(0.5 * lowest)
    most = kept.guaranteed.most
    bound = most < kept.frame.high
    assert (shedder._setting.by_level > most)[bound].any()
    assert (shedder._limits <= most)[bound].all()
    assert (shedder.measures().values["throttler_meters"] <= most)[bound].all()


def test_the_gate_and_the_picture_take_such_plans(world):
    from matplotlib.figure import Figure

    from planning.lira.figures import draw

    plan, rows, definition = world
    few = {n: v[:4000] for n, v in rows.items()}
    for outcome in evaluate(plan, few, definition, [0.5, (0.5, 0.9)]):
        assert outcome.quality > 0.0
        assert outcome.passed_fraction <= outcome.load + 1e-9
    draw(plan, Figure().add_subplot())


def test_both_encodings_hold_the_guarantees(kept):
    again = Plan.from_bytes(kept.to_bytes())
    assert again.to_document() == kept.to_document()
    assert Plan.from_document(kept.to_document()).to_bytes() == kept.to_bytes()
    assert again.guarantees == kept.guarantees
    for z in (0.0, 0.2, 0.35, 0.5, 1.0):
        np.testing.assert_array_equal(again.at(z).throttlers, kept.at(z).throttlers)
        assert again.kept(z) == kept.kept(z)


def test_a_plan_without_guarantees_has_none_in_either_encoding(plan):
    assert plan.to_bytes()[:4] == b"HLP1"
    assert "guaranteed" not in plan.to_document()


def test_documents_whose_guarantees_do_not_fit_are_refused(kept):
    good = kept.to_document()
    own = good["guaranteed"]
    first, last = own["places"][0], own["guarantees"][-1]
    for change in (
        {"loads": own["loads"][::-1]}, {"loads": own["loads"][:-1]},
        {"loads": [*own["loads"][:-1], 1.5]}, {"loads": [], "places": []},
        {"places": own["places"][::-1]}, {"places": [first]}, {"error": -1.0},
        {"places": [[float("nan")] * len(first), *own["places"][1:]]},
        {"places": [[-1.0] * len(first)] * len(own["places"])}, {"error": float("inf")},
        {"looks": own["looks"][:-1]}, {"looks": [*own["looks"][:-1], [999]]},
        {"guarantees": own["guarantees"][:-1]}, {"extra": 1},
        {"guarantees": [*own["guarantees"][:-1], last | {"value": float("nan")}]},
        {"guarantees": [*own["guarantees"][:-1], last | {"holds_from": 3.0}]},
    ):  # fmt: skip
        with pytest.raises(ArtifactError):
            Plan.from_document(good | {"guaranteed": own | change})


@given(st.data())
@settings(max_examples=150, deadline=None)
def test_damaged_bytes_are_refused_or_a_plan(kept, data):
    payload = kept.to_bytes()
    damaged = bytearray(payload[: data.draw(st.integers(0, len(payload)))])
    for _ in range(data.draw(st.integers(0, 3)) if damaged else 0):
        damaged[data.draw(st.integers(0, len(damaged) - 1))] ^= data.draw(st.integers(1, 255))
    try:
        read = Plan.from_bytes(bytes(damaged))
    except ArtifactError:
        assert bytes(damaged) != payload
        return
    if read.guaranteed is not None:
        assert len(read.kept(0.5)) == len(read.guarantees)
        assert np.isfinite(read.at(0.3).throttlers).all()


@pytest.mark.parametrize("z", [0.2, 0.4, 0.5, 0.77, 1.0])
def test_messages_to_nodes_keep_guarantees(kept, asked, z):
    """Throttlers off the breakpoints are rounded down, and levels of guarantees begin anew."""
    wanted = kept.partition.paint(kept.at(z).throttlers)
    levels = NodeMap.from_map(messages.encode_map(kept))
    levels.change(messages.encode_change(kept, z))
    whole = NodeMap.from_map(messages.encode_map(kept, z))
    unit = (kept.frame.high - kept.frame.low) / 65535
    for node in (levels, whole):
        assert (node.cells <= wanted + 1e-5).all()
        assert (node.cells >= wanted - unit - 1e-5).all()
    stations = Stations(np.array([1500.0]), np.array([1500.0]), np.array([3000.0]))
    part = NodeMap.from_part(broadcasts(kept, stations, z)[0], kept.frame)
    np.testing.assert_array_equal(part.cells, whole.cells)
    rng = np.random.default_rng(4)
    rows = {n: rng.uniform(0, 3000, 20_000) for n in "xy"}
    for (query, here), guarantee in zip(inside(asked, rows), kept.guarantees, strict=True):
        if z >= guarantee.holds_from:
            for node in (levels, whole, part):
                assert node.thresholds(rows["x"][here], rows["y"][here]).max() <= query.max_delta


def test_a_broken_change_is_refused(kept):
    message = messages.encode_change(kept, 0.4)
    refused = 0
    for at in range(3, len(message)):
        broken = bytearray(message)
        broken[at] ^= 0x55
        try:
            by_level = messages.decode_change(bytes(broken), kept.frame)
        except ArtifactError:
            refused += 1
            continue
        assert by_level.min() >= kept.frame.low
        assert by_level.max() <= kept.frame.high + 1e-9
    assert refused


def test_a_max_delta_below_the_lowest_throttler_is_a_mistake(define, tmp_path):
    with pytest.raises(DefinitionError, match=r"max_delta must be at least lowest_threshold, 5 m"):
        with_terms(define(), [{"max_delta": 4.9}])
    with_terms(define(), [{"max_delta": 5.0}])
    file = tmp_path / "asked.jsonl"
    file.write_text('{"name": "pier", "ranges": {"x": [0, 9]}, "max_delta": 2}\n')
    with pytest.raises(Mistake, match=r"query pier: max_delta must be at least lowest_threshold"):
        make_plan(None, define(file=file))  # type: ignore[arg-type]
    with pytest.raises(DefinitionError, match="family lira does not plan for it"):
        with_terms(define(), [{"min_completeness": 0.5}])


def test_queries_of_a_file_are_guaranteed_too(define, statistics, tmp_path):
    file = tmp_path / "asked.jsonl"
    lines = ['{"name": "pier", "ranges": {"x": [0, 900]}, "max_delta": 20, "priority": 3}',
             '{"name": "sea", "ranges": {"y": [0, 900]}}']  # fmt: skip
    file.write_text("\n".join(lines))
    plan = make_plan(statistics, define(file=file))
    [pier] = plan.guarantees
    assert (pier.name, pier.limit, pier.value, pier.priority) == ("query pier", "max_delta", 20, 3)
    assert plan.kept(pier.holds_from)[0] <= 20.0


def test_warnings_say_which_guarantee_fails_and_what_to_relax(define, statistics):
    definition = with_terms(define(), [{"max_delta": 5.0, "name": "pier"}])
    plan = make_plan(statistics, definition)
    [found] = [w for w in warnings(plan, statistics, definition) if "pier" in w]
    [pier] = plan.guarantees
    assert found.startswith(f"query pier: max_delta 5 down to load {pier.holds_from:.3g}; at load")
    assert "raise its max_delta" in found
    many = with_terms(define([(i, i, 900 + i, 900) for i in range(9)]), [{"max_delta": 5.0}] * 9)
    found = warnings(make_plan(statistics, many), statistics, many)
    assert "So do 4 more guarantees" in found[-1]


def test_guarantees_that_differ_everywhere_are_refused():
    kinds = np.arange(300)
    with pytest.raises(InfeasiblePlan, match="must differ in at most 256 ways"):
        _levels_by_kind(np.ones(300), np.ones(300), kinds, 64)
    level, ratio = _levels_by_kind(np.arange(1.0, 301), np.ones(300), kinds % 20, 64)
    assert level.max() + 1 == ratio.size <= 256
    for k in np.unique(level):
        assert np.unique((kinds % 20)[level == k]).size == 1


def test_a_guarantee_where_nobody_was_seen_still_binds(define, samples):
    """Nothing was seen there, so it costs no updates; fairness ties the others to it."""
    here = (samples["x"] > 700) | (samples["y"] > 700)
    seen = {n: v[here] for n, v in samples.items()}
    terms = [{"max_delta": 10.0}]
    definition = with_terms(define([(0, 0, 600, 600)], fairness_threshold=40), terms)
    plan = make_plan(build(seen, definition), definition)
    [guarantee] = plan.guarantees
    assert guarantee.holds_from < 1.0
    for z in np.linspace(guarantee.holds_from, 1.0, 9):
        setting = plan.at(float(z))
        assert plan.kept(float(z))[0] <= 10.0
        assert np.ptp(setting.throttlers) <= 40.0 + 1e-6


def test_everything_at_the_lowest_throttler_holds_at_full_load_alone(define, statistics):
    definition = with_terms(define([(0, 0, 3000, 3000)]), [{"max_delta": 5.0}])
    [guarantee] = make_plan(statistics, definition).guarantees
    assert guarantee.holds_from > 0.999
    assert guarantee.holds_from <= 1.0 < NOWHERE

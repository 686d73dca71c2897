"""The measurements behind the reproduced figures and tables."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from benchmarks.fit import examples
from benchmarks.fit.quadtrees import converge, expected_error
from benchmarks.fit.recorded import requests, web_rates
from planning.arrays import FloatArray
from planning.errors import InvalidInput
from planning.fit import demo
from planning.fit.dfit.chains import input_gain, root_of
from planning.fit.dfit.sampling import Sampling, plan_sampling
from planning.fit.dfit.servers import servers_of
from planning.fit.dfit.tables import Table, leaf_table
from planning.fit.model import MethodLimit
from planning.fit.network import QueryNetwork
from planning.fit.path.regions import enumerate_regions
from planning.fit.planner import optimum
from planning.fit.printed import cfit, quadtree
from planning.fit.printed.comparison import Comparison, compare
from planning.fit.printed.distributions import Empirical, Exponential
from planning.fit.program import NetworkProgram
from planning.fit.simplex.shedding import SheddingProgram, shedding_program
from planning.fit.simulate import measure

MEAN_PER_LAMBDA = 0.03
"""Mean rate, as a share of the highest, per unit of the paper's lambda (see Exponential)."""

REPEATS = 3
LARGE_ROWS = 3_000_000
SMALL_ROWS = 300_000


def timed(
    work: Callable[..., Any], *arguments: Any, repeats: int = 1, **named: Any
) -> tuple[float, Any]:
    """Call ``repeats`` times; return the shortest CPU time in seconds and the last result."""
    seconds = []
    for _ in range(repeats):
        start = time.process_time()
        result = work(*arguments, **named)
        seconds.append(time.process_time() - start)
    return min(seconds), result


def library_scorer(program: SheddingProgram) -> Callable[[FloatArray], FloatArray]:
    """Score points by GLOP, each point once, warm from the last (the paper used GLPK)."""
    model = NetworkProgram(program.network)
    known: dict[bytes, float] = {}

    def score(points: FloatArray) -> FloatArray:
        for point in points:
            key = point.tobytes()
            if key not in known:
                known[key] = model.resolve(point * program.max_rates)
        return np.array([known[point.tobytes()] for point in points])

    return score


TABLE_1 = ((1.0, 1.0), (1 / 3, 1 / 3), (1.0, 0.0), (0.0, 0.5), (0.2, 0.4))
"""Rates that server A keeps under plans 0 to 4; plan 4 is the optimum."""


def motivating_example() -> list[tuple[Any, ...]]:
    """Measure the five plans of Table 1, the last as the optimum finds it.

    An overloaded server serves all its queries evenly, as the paper assumes.
    """
    network = examples.figure_1()
    best = optimum(network, [1.0, 1.0]).drops
    rows: list[tuple[Any, ...]] = []
    for plan, kept in enumerate(TABLE_1):
        arcs = {f"i{k}->a{k}": 1.0 - rate for k, rate in enumerate(kept, start=1)}
        drops = network.drop_vector(best if plan == 4 else arcs)[None, :]
        done = measure(network, np.ones((1, 2)), drops)
        sent = [done.passed[0, network.arc_index[arc]] for arc in arcs]
        through = [done.passed[0, network.arc_index[arc]] for arc in ("b1->o1", "b2->o2")]
        loads = [_ratio(load) for load in done.loads[0]]
        rates = [1.0 - drop for drop in drops[0, [network.arc_index[a] for a in arcs]]]
        rows.append((plan, _ratios(rates), loads[0], _ratios(sent), loads[1], _ratios(through)))
    return rows


def _ratios(values: Sequence[float]) -> str:
    return ", ".join(map(_ratio, values))


def _ratio(value: float) -> str:
    """Return a number as a fraction in small integers.

    >>> _ratio(0.4)
    '2/5'
    """
    return str(Fraction(float(value)).limit_denominator(100))


def complementary_plan() -> tuple[float, float, float]:
    """Return Figure 7 at r = 0.2: bottom branch's drop, throughput, and that of input drops."""
    network = examples.figure_7()
    best = optimum(network, [0.2])
    at_input = network.evaluate([0.2], {"i->common": 0.375}).throughput
    return best.drops["common->bottom"], best.throughput, at_input


def load_distribution(error: float = 0.05) -> list[tuple[Any, ...]]:
    """Measure Figure 10: Solver, C-FIT and Solver-W on the five networks."""
    rows = []
    workload = Exponential(5 * MEAN_PER_LAMBDA, 2)
    quadtree.build(shedding_program(examples.figure_9("a")), 0.5)  # compiled before the clock runs
    cfit.build(examples.figure_9("a"), 0.5)
    for letter in examples.FIGURE_9:
        network = examples.figure_9(letter)
        program = shedding_program(network)
        glop_s, _ = timed(
            lambda p=program: quadtree.build(p, error, scorer=library_scorer(p)), repeats=REPEATS
        )
        solver_s, solver = timed(quadtree.build, program, error, repeats=REPEATS)
        fit_s, fit = timed(cfit.build, network, error, repeats=REPEATS)
        target = expected_error(solver, workload)
        weighted_s, weighted = timed(quadtree.build, program, target, workload=workload)
        regions = enumerate_regions(program).plan_count
        rows.append(
            (letter, glop_s, solver_s, fit_s, weighted_s, solver.plan_count, fit.plan_count,
             weighted.plan_count, target, regions)
        )  # fmt: skip
    return rows


def provision_by_lambda(lambdas: Sequence[int], error: float = 0.015) -> list[tuple[Any, ...]]:
    """Count Solver-W's plans for growing lambda (Figure 11a)."""
    rows = []
    for letter in examples.FIGURE_9:
        program = shedding_program(examples.figure_9(letter))
        plans = [
            quadtree.build(
                program, error, workload=Exponential(level * MEAN_PER_LAMBDA, 2)
            ).plan_count
            for level in lambdas
        ]
        rows.append((letter, *plans))
    return rows


def trace_rates() -> FloatArray | None:
    """Return a minute's rates of two kinds of requests, or None without the data."""
    try:
        names, rates = requests(60)
    except InvalidInput:
        return None
    return rates[:, [names.index("images"), names.index("shuttle")]]


def provision_by_cost(factors: Sequence[float], error: float = 0.015) -> list[tuple[Any, ...]]:
    """Count Solver-W's plans on the real trace for falling query costs (Figure 11c)."""
    trace = trace_rates()
    assert trace is not None
    rows = []
    for factor in factors:
        network = examples.figure_9("b", cost_factor=factor, max_rate=float(trace.max()))
        program = shedding_program(network)
        observed = trace / network.max_rates
        fits = (observed @ program.raw_use.T <= 1).all(axis=1).mean()
        seconds, tree = timed(quadtree.build, program, error, workload=Empirical(observed, 0.0))
        costs = f"({64 * factor:g}, {32 * factor:g})"
        rows.append((costs, f"{fits:.0%}", tree.plan_count, seconds))
    return rows


def densities(lambdas: Sequence[int], cells: int = 40) -> dict[int, FloatArray]:
    """Return the probability of grid cells for exponential workloads (Figure 12)."""
    edges = np.arange(cells) / cells
    low = np.stack(np.meshgrid(edges, edges, indexing="ij"), axis=-1).reshape(-1, 2)
    return {
        level: Exponential(level * MEAN_PER_LAMBDA, 2)
        .probability(low, low + 1 / cells)
        .reshape(cells, cells)
        for level in lambdas
    }


def fan_out(fans: Sequence[int], error: float = 0.01) -> list[tuple[Any, ...]]:
    """Measure Figure 13."""
    rows = []
    cfit.build(examples.fan_out(2), 0.5)  # compiled before the clock runs
    for branches in fans:
        network = examples.fan_out(branches)
        program = shedding_program(network)
        solver_s, solver = timed(
            lambda p=program: quadtree.build(p, error, scorer=library_scorer(p)), repeats=REPEATS
        )
        fit_s, fit = timed(cfit.build, network, error, repeats=REPEATS)
        regions = enumerate_regions(program).plan_count
        rows.append((branches, solver_s, fit_s, solver.plan_count, fit.plan_count, regions))
    return rows


def convergence(seconds: float) -> dict[int, list[tuple[float, float, int]]]:
    """Follow Solver-W's expected error over time for 2, 4 and 8 inputs (Figure 14a)."""
    paths = {}
    for inputs in (2, 4, 8):
        workload = Exponential(3 * MEAN_PER_LAMBDA, inputs)
        program = shedding_program(examples.wide(inputs))
        paths[inputs] = converge(program, workload, seconds)
    return paths


def dimensions(errors: Sequence[float], *, large: bool) -> list[tuple[Any, ...]]:
    """Time C-FIT for 2, 4 and 8 inputs (Figure 14b)."""
    rows: list[tuple[Any, ...]] = []
    for inputs in (2, 4, 8):
        for error in errors:
            most = LARGE_ROWS if large else SMALL_ROWS
            try:
                seconds, plans = timed(cfit.build, examples.wide(inputs), error, max_rows=most)
            except MethodLimit as limit:
                rows.append((inputs, error, "", "", f"refused: {str(limit).split(';')[0]}"))
                continue
            rows.append((inputs, error, seconds, plans.plan_count, ""))
    return rows


def table_sizes(*, large: bool) -> list[tuple[Any, ...]]:
    """Compare table sizes with Table 3."""
    paper = {2: (46, 52), 4: (984, 96), 8: (42472, 184)}
    rows = []
    for inputs, (entries, size) in paper.items():
        network = examples.wide(inputs)
        rows.append(
            (inputs, entries, size, _entries(network, _papers_sampling(network), large),
             _entries(network, plan_sampling(network, 0.1), large), 8 * (inputs + 1),
             enumerate_regions(shedding_program(network)).plan_count)
        )  # fmt: skip
    return rows


def _entries(network: QueryNetwork, sampling: Sampling, large: bool) -> Any:
    try:
        tables = cfit.build_tables(network, sampling, LARGE_ROWS if large else SMALL_ROWS)
    except MethodLimit:
        return "refused"
    return tables[root_of(network)].count


def _papers_sampling(network: QueryNetwork, error: float = 0.1) -> Sampling:
    """Return samples as the paper draws them: spread epsilon, down to a tenth of the maximum."""
    made = plan_sampling(network, error)
    use = shedding_program(network).use_per_tuple
    floors = {}
    for port in made.floors:
        stream = port.split("@")[0]
        name, gain = input_gain(network, stream)
        floors[port] = 0.1 * gain / float(use[:, network.input_ids.index(name)].max())
    return Sampling(error, error, 1, floors, made.highest)


def child_table(network: QueryNetwork, sampling: Sampling) -> Table:
    """Return the table that server B sends to A, without a feasibility triangle."""
    return leaf_table(servers_of(network)["B"], sampling, None, LARGE_ROWS)


def table_size_by_load(errors: Sequence[float]) -> list[tuple[Any, ...]]:
    """Count the child's rows for several errors and query loads, on one grid (Figure 15a)."""
    rows: list[tuple[Any, ...]] = []
    agreed = {e: plan_sampling(examples.figure_9("b"), e) for e in errors}
    for factor in (1.0, 0.75, 0.5):
        network = examples.figure_9("b", cost_factor=factor)
        counts = [child_table(network, agreed[error]).count for error in errors]
        rows.append((factor, *counts))
    return rows


def sent_share(old: Table, new: Table, distances: Sequence[float]) -> list[float]:
    """Return the share of new rows to send so that scores are within each distance.

    A new row need not be sent if a row the parent already has, still feasible, lies below it with a
    score (by the new coefficients) that is close enough.
    """
    value = np.linalg.lstsq(new.rates, new.score, rcond=None)[0]
    kept = old.rates[np.asarray((old.rates @ new.raw_use.T <= 1 + 1e-12).all(axis=1))]
    scores = kept @ value
    order = np.argsort(-scores, kind="stable")
    kept, scores = kept[order], scores[order]
    best = np.zeros(new.count)
    for first in range(0, new.count, 500):
        rows = new.rates[first : first + 500]
        below = np.asarray((kept[None, :, :] <= rows[:, None, :] * (1 + 1e-9)).all(axis=2))
        place = below.argmax(axis=1)
        served = below[np.arange(len(rows)), place]
        best[first : first + 500] = np.where(served, scores[place], 0.0)
    loss = 1.0 - best / np.maximum(new.score, 1e-300)
    loss[new.score <= 0] = 0.0
    return [float((loss > distance + 1e-9).mean()) for distance in distances]


def selectivity_deltas(distances: Sequence[float]) -> list[tuple[Any, ...]]:
    """Measure Figure 15(b): one operator's selectivity falls from 1.

    The child's first operator of query 1 feeds a second one, so its selectivity changes loads.
    """
    rows: list[tuple[Any, ...]] = []
    before = _two_step_child(1.0)
    sampling = plan_sampling(before, 0.1)
    old = child_table(before, sampling)
    for selectivity in (0.9, 0.8, 0.6, 0.4, 0.2):
        new = child_table(_two_step_child(selectivity), sampling)
        rows.append((selectivity, *sent_share(old, new, distances)))
    return rows


def _two_step_child(selectivity: float) -> QueryNetwork:
    document = examples.figure_9("b", max_rate=40.0).to_document()
    document["operators"].append(
        {"id": "c1", "node": "B", "type": "map", "cost": 0.016, "selectivity": 1.0,
         "inputs": ["b1"]}
    )  # fmt: skip
    for operator in document["operators"]:
        if operator["id"] == "b1":
            operator["cost"], operator["selectivity"] = 0.016, selectivity
    document["outputs"][0]["stream"] = "c1"
    return QueryNetwork.from_document(document)


def move_deltas(distances: Sequence[float]) -> list[tuple[Any, ...]]:
    """Measure Figure 15(c): load moves from the parent's to the child's operator."""
    rows: list[tuple[Any, ...]] = []
    before = examples.figure_9("b", max_rate=40.0)
    sampling = plan_sampling(before, 0.1)
    old = child_table(before, sampling)
    for moved in (8, 16, 24, -8):
        after = before.with_operators(
            {"a1": {"cost": (64 - moved) / 1000}, "b1": {"cost": (32 + moved) / 1000}}
        )
        rows.append((moved, *sent_share(old, child_table(after, sampling), distances)))
    return rows


def real_rates(quick: bool) -> dict[str, Comparison] | None:
    """Compare all methods on the NASA trace, or None without the data."""
    compared = {}
    for network, period in ((examples.web(), 60), (demo.network(), 10)):
        try:
            rates = web_rates(network, period)
        except InvalidInput:
            return None
        compared[network.name] = compare(
            network, rates[: len(rates) // 6] if quick else rates, max_plans=SMALL_ROWS
        )
    return compared

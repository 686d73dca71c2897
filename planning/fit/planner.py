"""From statistics (or a network) to a plan, by the method the definition names.

``optimum`` is the best plan at a single rate vector.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from planning.arrays import FloatArray
from planning.errors import InvalidInput, PlanningError, StatisticsError
from planning.fit.network import QueryNetwork, Rates, graph
from planning.fit.path import Part, Stored
from planning.fit.path.nesting import holds_from
from planning.fit.path.regions import enumerate_regions
from planning.fit.plan import METHODS, Plan
from planning.fit.printed import cfit, quadtree
from planning.fit.printed.distributions import Distribution, Empirical
from planning.fit.simplex.shedding import shedding_program
from planning.fit.simplex.warm import WarmSimplex

if TYPE_CHECKING:
    from planning.families import Definition
    from planning.fit.parameters import Parameters
    from planning.fit.statistics import Statistics

PROBES = 500
QUALITIES = 41
HEADROOM_LOADS = (0.3, 0.5, 0.7, 0.9)
MOST_HEADROOM = 1e3
LEAST_PAIRS = 20
OVERLOAD = 1e-7
"""Share of a capacity, or of the throughput, by which rounding may miss it."""


def plan(statistics: Statistics, definition: Definition[Parameters]) -> Plan:
    """Return the plan for the measured network, for all rates up to the inputs' ``max_rate``."""
    parameters = definition.parameters
    network = statistics.network
    workload = None
    if parameters.method == "solver_w":
        workload = Empirical(statistics.rates / network.max_rates)
    made = plan_network(
        network,
        method=parameters.method,
        error=parameters.error,
        workload=workload,
        reference=statistics.mean_rates,
        memory_bytes=parameters.memory_bytes,
        max_regions=parameters.max_regions,
        max_plans=parameters.max_plans,
    )
    if parameters.headroom > 0.0:
        made = replace(made, headroom=_headroom(made, statistics.successive, parameters.headroom))
    return replace(made, qualities=_qualities(made, statistics.rates))


def _headroom(made: Plan, successive: FloatArray, share: float) -> float:
    """Return the least factor on a period's rates that suits the next one in a share of periods.

    At each of several loads, so that it covers all mixtures of what is dropped.
    """
    if len(successive) < LEAST_PAIRS:
        raise StatisticsError(
            f"headroom needs samples of at least {LEAST_PAIRS} pairs of successive periods, got "
            f"{len(successive)}; take more samples, or leave headroom out"
        )
    before, after = np.hsplit(successive, 2)
    scale = _busiest(made.network, after.mean(axis=0))

    def suits(factor: float) -> bool:
        for load in HEADROOM_LOADS:
            drops = made.at_many(before * factor / (scale * load))
            done = made.network.evaluate_many(after / (scale * load), drops)
            if (done.use(made.network).max(axis=1) > 1.0 + OVERLOAD).mean() > 1.0 - share:
                return False
        return True

    low, high = 1.0, 1.0
    while not suits(high):
        if high > MOST_HEADROOM:
            raise StatisticsError(
                f"headroom must be reachable by a factor of at most {MOST_HEADROOM:g} on the "
                f"rates of the period before, {share:g} is not; lower it"
            )
        low, high = high, 2.0 * high
    while high - low > 1e-3 * low:
        middle = (low + high) / 2.0
        low, high = (low, middle) if suits(middle) else (middle, high)
    return high


def _qualities(made: Plan, rates: FloatArray) -> tuple[float, ...]:
    """Return the quality of the observed rates, scaled so that their mean stands for each load."""
    rates = np.maximum(rates, 0.0)  # as counts of broken monitors may not be
    scale = _busiest(made.network, rates.mean(axis=0))
    if scale <= 0.0:
        return ()
    found = [0.0]
    for load in np.linspace(0.0, 1.0, QUALITIES)[1:]:
        scaled = rates / (scale * load)
        drops = made.at_many(scaled * made.headroom)
        full = made.network.evaluate_many(scaled, np.zeros_like(drops)).throughput.sum()
        reached = made.network.evaluate_many(scaled, drops).throughput.sum()
        found.append(min(float(reached / full), 1.0) if full > 0 else 1.0)
    return tuple(found)


def _busiest(network: QueryNetwork, rates: FloatArray) -> float:
    """Return the highest share of a capacity that rates ask for."""
    return float((shedding_program(network).use_per_tuple @ rates).max(initial=0.0))


def solver_status(plan: Plan, definition: Definition[Parameters]) -> str:
    """Return how close to the optimum the plan is: ``error`` is a bound, or an expectation.

    >>> from planning.examples import demo_definition
    >>> from planning.fit.demo import figure_1
    >>> methods = ("exact", "c_fit")
    >>> plans = [plan_network(figure_1(), method=method) for method in methods]
    >>> [solver_status(plan, demo_definition("fit")) for plan in plans]
    ['exact', 'within 0.1']
    """
    if plan.error == 0.0:
        return "exact"
    return f"within {plan.error:g}" + (" expected" if plan.method == "solver_w" else "")


def warnings(
    plan: Plan, statistics: Statistics, definition: Definition[Parameters]
) -> list[str]:
    """Return which minimums do not hold at every load of the gate, by how much, and what to do."""
    told = []
    lowest = min(definition.gate.loads)
    done = plan.network.evaluate(plan.rates_at(lowest), plan.at(lowest))
    shares = [(done.loads[n.id] / n.capacity, f"server {n.id}") for n in plan.network.nodes]
    shares += [(done.links[k.id] / k.capacity, f"link {k.id}") for k in plan.network.links]
    full = ", ".join(name for share, name in shares if share > 1.0 - OVERLOAD)
    for guarantee, kept in zip(plan.guarantees, plan.kept(lowest), strict=True):
        if kept < guarantee.value * (1.0 - OVERLOAD):
            told.append(
                f"{guarantee}; at load {lowest:g} it lacks {guarantee.value - kept:.3g} of "
                f"{guarantee.value:g} tuples/s: lower it, raise its priority above "
                f"{guarantee.priority}, or give {full} more capacity"
            )
    return told


def plan_network(
    network: QueryNetwork,
    *,
    method: str = "exact",
    error: float = 0.1,
    workload: Distribution | None = None,
    reference: FloatArray | None = None,
    memory_bytes: int = 4_000_000,
    max_regions: int = 5_000,
    max_plans: int = 1_000_000,
) -> Plan:
    """Plan a network: each fragment on its own.

    ``exact`` takes critical regions where they fit ``memory_bytes`` and the simplex elsewhere; both
    give the optimum. ``solver``, ``solver_w`` and ``c_fit`` are the paper's methods with an error
    bound of ``error``.
    """
    if method not in ("exact", *METHODS):
        raise InvalidInput(f"method must be one of exact, {', '.join(METHODS)}, got {method!r}")
    network.check_worth_planning()
    tables: list[Stored | None] = []
    fragments = graph.fragments(network)
    left = memory_bytes
    for fragment in fragments:
        part_workload = _marginal(workload, network, fragment)
        table = _table(fragment, method, error, part_workload, left, max_regions, max_plans)
        left -= table.nbytes if table is not None else 0
        tables.append(table)
    if method == "exact":
        method = "regions" if all(t is not None for t in tables) else "simplex"
    exact = method in ("regions", "simplex")
    rates = network.max_rates if reference is None else np.asarray(reference, dtype=np.float64)
    if not (rates > 0).any():
        rates = network.max_rates
    made = Plan(
        network=network,
        method=method,
        error=0.0 if exact else error,
        reference=reference_direction(network, rates),
        parts=tuple(Part(f, t) for f, t in zip(fragments, tables, strict=True)),
    )
    _verify(made)
    if any(output.minimum > 0.0 for output in network.outputs):
        made = replace(made, holds_from=holds_from(made))
    return made


def _verify(made: Plan) -> None:
    """Refuse a plan that overloads a server or link, or an exact one that misses the optimum.

    Tried at random rates of every size, from those that just fill the busiest server to the highest
    planned ones.
    """
    rng = np.random.default_rng(0)
    for part in made.parts:
        program = part.program
        if not len(program.tableau):
            continue
        points = rng.random((PROBES, len(program.max_rates)))
        points **= rng.choice([0.5, 1.0, 4.0], (PROBES, 1))
        most = np.maximum((points @ program.raw_use.T).max(axis=1, keepdims=True), 1.0)
        points /= most ** rng.choice([0.0, 0.5, 0.9], (PROBES, 1))
        done = part.flows(points)
        full = np.maximum(points @ program.full_throughput, 1e-300)
        best = done.throughput
        if made.error == 0.0:
            best = program.throughput(points, WarmSimplex(program).dropped(points))
        used, missed = done.use(part.network).max(), (np.abs(best - done.throughput) / full).max()
        if not (used <= 1.0 + OVERLOAD and missed <= OVERLOAD):  # NaN fails
            highest = program.raw_use.max(axis=0)
            raise PlanningError(
                f"a plan of network {made.network.name!r} must overload nothing and reach the "
                f"optimum, got {used:.9g} of a capacity and an error of {missed:.3g}; input "
                f"{part.network.input_ids[highest.argmax()]} alone asks for {highest.max():.3g} "
                "times a capacity: lower its max_rate, or use costs and weights of fewer decades"
            )


def _table(
    fragment: QueryNetwork,
    method: str,
    error: float,
    workload: Distribution | None,
    memory_bytes: int,
    max_regions: int,
    max_plans: int,
) -> Stored | None:
    program = shedding_program(fragment)
    trivial = not program.raw_use.any() or not program.full_throughput.any()
    if method == "simplex" or (trivial and method not in ("exact", "regions")):
        return None
    if method in ("exact", "regions"):
        most_bytes = np.inf if method == "regions" else memory_bytes
        try:
            table = enumerate_regions(program, max_regions, most_bytes)
        except PlanningError:
            if method == "regions":
                raise
            return None
        return table if method == "regions" or table.nbytes <= memory_bytes else None
    if method == "solver_w" and workload is None:
        raise InvalidInput("workload must be given for solver_w, got none; use solver")
    if method in ("solver", "solver_w"):
        chosen = workload if method == "solver_w" else None
        return quadtree.build(program, error, workload=chosen, max_plans=max_plans)
    return cfit.build(fragment, error, max_rows=max_plans)


def _marginal(
    workload: Distribution | None, network: QueryNetwork, fragment: QueryNetwork
) -> Distribution | None:
    """Return the workload of a fragment's inputs."""
    if workload is None or fragment.input_ids == network.input_ids:
        return workload
    return workload.marginal([network.input_ids.index(i) for i in fragment.input_ids])


@dataclass(frozen=True, slots=True)
class Optimum:
    """The best load shedding plan at one rate vector.

    Examples
    --------
    >>> from planning.fit.demo import figure_1
    >>> best = optimum(figure_1(), {"i1": 1.0, "i2": 1.0})
    >>> {server: round(load, 6) for server, load in best.loads.items()}
    {'A': 1.0, 'B': 1.0}
    """

    throughput: float
    drops: dict[str, float]
    loads: dict[str, float]
    outputs: dict[str, float]
    shortfalls: dict[str, float]

    @classmethod
    def of(cls, network: QueryNetwork, rates: FloatArray, drops: dict[str, float]) -> Optimum:
        """Return what drops lead to."""
        done = network.evaluate(rates, drops)
        shortfalls = {
            o.id: o.minimum - done.outputs[o.id]
            for o in network.outputs
            if done.outputs[o.id] < o.minimum * (1 - 1e-9)
        }
        return cls(done.throughput, drops, done.loads, done.outputs, shortfalls)


def optimum(network: QueryNetwork, rates: Rates) -> Optimum:
    """Return the highest weighted throughput that overloads no server or link.

    >>> from planning.fit.demo import figure_1
    >>> best = optimum(figure_1(), [1, 1])  # Table 1
    >>> round(best.throughput, 12), {a: round(f, 12) for a, f in best.drops.items()}
    (0.6, {'i1->a1': 0.8, 'i2->a2': 0.6})
    """
    vector, program = network.rate_vector(rates), shedding_program(network)
    if not program.location_count:
        return Optimum.of(network, vector, {})
    fractions = WarmSimplex(program).fractions((vector / program.max_rates)[None, :])[0]
    found = zip(program.names, fractions.tolist(), strict=True)
    return Optimum.of(network, vector, {name: f for name, f in found if name and f > 0})


def reference_direction(network: QueryNetwork, rates: FloatArray) -> FloatArray:
    """Scale ``rates`` so that the busiest server or link is exactly full.

    >>> from planning.fit.demo import figure_1
    >>> reference_direction(figure_1(), np.array([1.0, 1.0]))
    array([0.25, 0.25])
    """
    busiest = _busiest(network, rates)
    return rates / busiest if busiest > 0 else rates

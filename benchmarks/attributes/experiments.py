"""The measurements behind the reproduction and the benchmark."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from benchmarks.attributes import recorded
from benchmarks.attributes.workload import Faults, stream
from planning.arrays import FloatArray, IntArray
from planning.attributes import cycles, model, planner, reevaluation
from planning.attributes.cycles import Detector
from planning.attributes.parameters import Parameters
from planning.attributes.path import solve
from planning.attributes.plan import Plan
from planning.attributes.planner import plan_samples
from planning.attributes.printed.ranking import shedding_order
from planning.attributes.shedder import Shedder
from planning.attributes.simulate import Trace, drop_tuples, measure, replay
from planning.attributes.statistics import Statistics, build
from planning.streams import StreamDefinition

METHODS = ("paper", "selection", "periods", "on_change")
LENGTHS = ((12,), (3, 4), (4, 6), (2,), (75,), (5,), (50,), (2, 9), (7, 11), (6, 10, 15))
FAULTS = (Faults(), Faults(0.05), Faults(0, 0.05), Faults(0, 0, 0.05), Faults(0.05, 0.05, 0.05))
# Sliding window sizes of Table III.
TABLE_3 = {
    "weather W1": 75, "weather W2": 500, "weather W3": 250, "stock S1": 100, "stock S2": 488,
    "stock S3": 1235, "internet I1": 96, "internet I2": 50, "internet I3": 86,
}  # fmt: skip
CHANNEL_WINDOW = 144  # four cycles of the three streams


@dataclass(frozen=True, slots=True)
class Comparison:
    """A method compared with tuple dropping at one capacity."""

    method: str
    load: float
    loss: float
    predicted_loss: float
    drop_loss: float
    sent: float  # bytes over full bytes
    fullest_window: int
    capacity: int

    @property
    def gain(self) -> float:
        """How many times lower the hold error is than tuple dropping's."""
        return self.drop_loss / self.loss if self.loss > 0 else float("inf")


def planned(samples: Mapping[str, Any], definition: StreamDefinition) -> Plan:
    """Make the plan of a recorded stream."""
    return planner.plan(build(samples, definition), definition)


def compare(
    methods: Sequence[str],
    loads: Sequence[float],
    train: Mapping[str, Any],
    test: Mapping[str, Any],
) -> list[Comparison]:
    """Plan on the first half of the real stream, shed the second with every method."""
    compared = []
    for method in methods:
        plan = planned(train, recorded.definition(method=method))
        trace = Trace.of(plan, test)
        for load in loads:
            sent = Shedder(plan, load).send(trace.batch(0, trace.rows))
            mine, other = measure(plan, trace, sent.keep), drop_tuples(plan, trace, load)
            compared.append(
                Comparison(
                    method, load, mine.loss, 1.0 - plan.predicted_quality(load), other.loss,
                    float(sent.bytes.sum()) / full_bytes(plan, trace),
                    int(window_bytes(sent.bytes, plan.window).max()), plan.capacity_bytes(load),
                )  # fmt: skip
            )
    return compared


def full_bytes(plan: Plan, trace: Trace) -> int:
    """Return the bytes of the whole trace before shedding."""
    sizes = np.array([s.full_bytes for s in plan.streams], dtype=np.int64)
    return int(sizes[trace.streams[trace.streams >= 0]].sum())


def share_channel(
    method: str, loads: Sequence[float], train: Mapping[str, Any], test: Mapping[str, Any]
) -> dict[str, list[float]]:
    """Return the losses of three real streams on one channel, pooled and proportional."""
    losses: dict[str, list[float]] = {}
    for sharing in ("pooled", "proportional"):
        definition = recorded.channel_definition(
            method=method, inter_stream=sharing, window_tuples=CHANNEL_WINDOW
        )
        plan = planned(train, definition)
        trace = Trace.of(plan, test)
        losses[sharing] = [replay(plan, trace, load).loss for load in loads]
    return losses


def wrong_cycles(seeds: int, faults: Sequence[Faults] = FAULTS) -> tuple[int, int]:
    """Return (streams, wrong CIDs) over generated streams with faults."""
    streams = wrong = 0
    for seed, fault in itertools.product(range(seeds), faults):
        rng = np.random.default_rng(seed)
        lengths = LENGTHS[seed % len(LENGTHS)]
        clean = stream(rng, max(40, 600 // lengths[0]), lengths, twins=seed % 2, constants=1)
        cycle = cycles.detect(fault.apply(clean, rng))
        streams += 1
        keys = {"key0", "key1", "key2", "twin0"}
        wrong += cycle.length != np.lcm.reduce(lengths) or not set(cycle.cid) <= keys
    return streams, wrong


def false_cycles(seeds: int) -> tuple[int, int]:
    """Return (shuffled streams, cycles found in them)."""
    false = 0
    for seed in range(seeds):
        rng = np.random.default_rng(seed)
        clean = stream(rng, 40, LENGTHS[seed % len(LENGTHS)], twins=1, constants=1)
        order = rng.permutation(len(clean["key0"]))
        false += bool(cycles.detect({n: c[order] for n, c in clean.items()}).cid)
        false += bool(cycles.detect({n: rng.permutation(c) for n, c in clean.items()}).cid)
    return 2 * seeds, false


def detection_accuracy(rates: Sequence[float], seeds: int, detector: Detector) -> list[float]:
    """Return the fraction of right CIDs per rate of lost, doubled and corrupted tuples."""
    accuracy = []
    for rate in rates:
        right = 0
        for seed in range(seeds):
            rng = np.random.default_rng(seed)
            clean = stream(rng, 100, (12,), constants=1)
            cycle = cycles.detect(Faults(rate, rate, rate).apply(clean, rng), (), detector)
            right += cycle.length == 12 and cycle.cid == ("key0",)
        accuracy.append(right / seeds)
    return accuracy


def selection_mismatches(instances: int) -> int:
    """Return how often the frontier differs from brute force over all subsets."""
    rng = np.random.default_rng(1)
    wrong = 0
    for _ in range(instances):
        n = int(rng.integers(1, 9))
        sizes, loss = rng.integers(0, 9, n), rng.integers(0, 9, n).astype(np.float64)
        frontier = solve([[int(s), 0] for s in sizes], [[0.0, float(v)] for v in loss])
        kept = np.array(list(itertools.product((0, 1), repeat=n)))
        weight, lost = kept @ sizes, loss.sum() - kept @ loss
        for budget in range(int(sizes.sum()) + 1):
            best = lost[weight <= budget].min()
            wrong += bool(abs(frontier.loss[frontier.best(budget)] - best) > 1e-9)
    return wrong


def window_bytes(sent: IntArray, window: int) -> IntArray:
    """Return the bytes in every window of ``window`` consecutive tuples.

    >>> window_bytes(np.array([1, 2, 3, 4]), 2).tolist()
    [3, 5, 7]
    """
    total = np.concatenate([[0], np.cumsum(sent)])
    width = min(window, len(sent))
    return np.asarray(total[width:] - total[: len(total) - width])


def capacity_violations(streams: int) -> tuple[int, int]:
    """Return (tuples offered, tuples whose window exceeded the capacity) over random streams.

    Schemas, sizes, windows, methods and batches are random; the capacity changes mid-stream.
    """
    offered = violations = 0
    for seed in range(streams):
        rng = np.random.default_rng(seed)
        attributes = int(rng.integers(1, 6))
        samples = stream(rng, 60, (int(rng.integers(2, 9)),), tuple(rng.random(attributes)))
        parameters = Parameters(
            method=METHODS[seed % 4], refresh_reports=int(rng.choice([0, 2, 24])),
            window_tuples=[None, 1, 3, 20][int(rng.integers(4))],
            sizes={f"value{j}": int(rng.integers(0, 40)) for j in range(attributes)},
        )  # fmt: skip
        plan = plan_samples(samples, parameters)
        sent, limit = _changing_capacity(plan, samples, rng)
        padded = np.concatenate([np.zeros(plan.window - 1, dtype=np.int64), sent])
        window = window_bytes(padded, plan.window)
        offered += len(sent)
        violations += int(((window > limit) & (sent > 0)).sum())
    return offered, violations


def _changing_capacity(
    plan: Plan, samples: Mapping[str, Any], rng: np.random.Generator
) -> tuple[Any, Any]:
    shedder = Shedder(plan, 1.0)
    rows = len(samples["key0"])
    sent, limit = [], []
    start = 0
    while start < rows:
        capacity = float(rng.uniform(0, 1.2)) * plan.window * plan.tuple_bytes
        shedder.set_capacity(capacity)
        stop = min(rows, start + int(rng.integers(1, 80)))
        sent.append(shedder.send({n: c[start:stop] for n, c in samples.items()}).bytes)
        limit.append(np.full(stop - start, int(capacity)))
        start = stop
    return np.concatenate(sent), np.concatenate(limit)


def window_schemes(
    matrix: FloatArray, windows: FloatArray, width: int, shed: int, ema_span: float
) -> list[tuple[int, ...]]:
    """Return the paper's scheme of every window: the ``shed`` least varying attributes."""
    schemes = []
    for number in windows:
        part = matrix[int(number) * width : (int(number) + 1) * width]
        deviation = [
            model.standard_deviation(model.exponential_moving_average(part[:, j], ema_span))
            for j in range(part.shape[1])
        ]
        schemes.append(tuple(sorted(shedding_order(deviation)[:shed])))
    return schemes


def least_informative(statistics: Statistics, names: Sequence[str], shed: int) -> tuple[int, ...]:
    """Return the attributes of least information score, as indices into ``names``."""
    scores = {a.name: a.score for a in statistics.streams[0].attributes}
    order = sorted(range(len(names)), key=lambda j: (scores[names[j]], j))
    return tuple(sorted(order[:shed]))


def notices(
    scheme: Callable[[float], Sequence[str]], first_s: float, original_s: float, until_s: float,
    *, adaptive: bool = True,
) -> list[tuple[float, tuple[str, ...]]]:
    """Return every re-evaluation in [first, until] as (time, set to shed).

    ``scheme`` tells what re-evaluation would find at a time; the fixed check of the paper's
    comparison repeats every ``original_s``.
    """  # fmt: skip
    state = reevaluation.start(scheme(first_s), first_s, original_s)
    seen = [(first_s, state.shed)]
    while state.next_s <= until_s:
        now = state.next_s
        state = state.after(now, scheme(now))
        if not adaptive:
            state = replace(state, interval_s=original_s)
        seen.append((now, state.shed))
    return seen

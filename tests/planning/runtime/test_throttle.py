import math
import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from planning.errors import InvalidInput
from planning.runtime import CpuShare, FeedForwardThrottle, FixedThrottle, RateMonitor, ThrotLoop


def poisson_arrivals(rng, rate_per_s, start_s, end_s):
    now = start_s
    while (now := now + rng.expovariate(rate_per_s)) < end_s:
        yield now


def drive(throttle, arrivals, carry=0.0):
    """Pass items one by one at the throttle's load; yield (time, load, passed)."""
    for now in arrivals:
        carry += throttle.before(now, 1)
        wanted = carry >= 1
        carry -= wanted
        passed = int(wanted) if throttle.allowed() >= 1 else 0
        throttle.after(passed, int(wanted) - passed)
        yield now, throttle.load, passed


def offer(throttle, now, items):
    """Pass a batch as far as the throttle lets it; return what passes."""
    share = throttle.before(now, items) * items + getattr(throttle, "carry", 0.0)
    wanted = int(share)
    throttle.carry = share - wanted
    passed = min(wanted, throttle.allowed())
    throttle.after(passed, wanted - passed)
    return passed


@pytest.mark.parametrize("seed", range(4))
def test_a_tenfold_burst_is_met_within_one_window(seed):
    rng = random.Random(seed)
    throttle = FeedForwardThrottle(capacity_per_s=1000.0, window_s=1.0)
    for _ in drive(throttle, poisson_arrivals(rng, 1000.0, 0.0, 10.0)):
        pass
    assert throttle.load > 0.85
    burst = list(drive(throttle, poisson_arrivals(rng, 10_000.0, 10.0, 15.0)))
    settled = next(now for now, load, _ in burst if load < 0.12)
    assert settled - 10.0 < 0.3
    passed = [sum(p for now, _, p in burst if 10 + s <= now < 11 + s) for s in range(5)]
    assert passed[0] <= 2000
    assert all(950 < count < 1050 for count in passed[2:])


@pytest.mark.parametrize("seed", range(5))
def test_steady_noise_does_not_make_it_flap(seed):
    rng = random.Random(seed)
    throttle = FeedForwardThrottle(capacity_per_s=500.0, window_s=1.0)
    loads = [load for _, load, _ in drive(throttle, poisson_arrivals(rng, 1000.0, 0.0, 60.0))]
    tail = loads[len(loads) // 10 :]
    assert min(tail) > 0.40
    assert max(tail) < 0.60
    assert 0.49 < sum(tail) / len(tail) < 0.51
    changes = sum(a != b for a, b in zip(tail, tail[1:], strict=False))
    assert changes < 54 * 10 / 2


def test_the_load_returns_to_one_after_the_burst():
    throttle = FeedForwardThrottle(capacity_per_s=100.0, window_s=1.0)
    for i in range(400):
        offer(throttle, i / 100, 100)
    assert throttle.load == pytest.approx(0.01, rel=0.2)
    for i in range(400, 600):
        offer(throttle, i / 100, 0)
    assert offer(throttle, 6.0, 1) == 1
    assert throttle.load == 1.0


def test_the_load_never_falls_below_the_floor_and_leaves_it_again():
    throttle = FeedForwardThrottle(capacity_per_s=1.0, window_s=1.0, floor=0.01)
    for i in range(1, 100):
        assert offer(throttle, i / 10, 1_000_000) <= 1
    assert throttle.load == 0.01
    offer(throttle, 12.0, 0)
    assert offer(throttle, 14.0, 1) == 1


@pytest.mark.parametrize("every_s", [0.001, 0.01, 0.1, 0.5, 1.0])
def test_the_rate_does_not_depend_on_how_items_are_batched(every_s):
    throttle = FeedForwardThrottle(capacity_per_s=2500.0, window_s=1.0)
    batch = round(10_000 * every_s)
    passed = sum(offer(throttle, i * every_s, batch) for i in range(round(20 / every_s)))
    assert throttle.load == pytest.approx(0.25, rel=0.1)
    assert passed == pytest.approx(20 * 2500, rel=0.06)


@given(
    st.lists(st.tuples(st.floats(-5, 5), st.integers(0, 10**9)), max_size=60),
    st.floats(0.1, 1e6),
)
def test_the_load_stays_between_floor_and_one_whatever_is_observed(steps, capacity):
    """Even when clocks go backwards."""
    throttle = FeedForwardThrottle(capacity_per_s=capacity, floor=0.001)
    now = 0.0
    for step, items in steps:
        now += step
        offer(throttle, now, items)
        assert 0.001 <= throttle.load <= 1.0


def test_the_same_observations_give_the_same_loads():
    runs = []
    for _ in range(2):
        rng = random.Random(5)
        throttle = FeedForwardThrottle(300.0)
        arrivals = poisson_arrivals(rng, 1000.0, 0.0, 3.0)
        runs.append([load for _, load, _ in drive(throttle, arrivals)])
    assert runs[0] == runs[1]


@pytest.mark.parametrize("max_queue", [2, 10, 100])
def test_throtloop_converges_to_the_papers_utilisation(max_queue):
    """LIRA 3.4: lambda / mu must become 1 - 1/B, for arrivals three times what can be served."""
    loop = ThrotLoop(max_queue)
    for _ in range(20):
        loop.step(arrivals_per_s=300.0 * loop.load, service_per_s=100.0)
    assert 300.0 * loop.load / 100.0 == pytest.approx(1 - 1 / max_queue)


def test_throtloop_follows_the_papers_formula_step_by_step():
    loop = ThrotLoop(max_queue=5)
    z = 1.0
    for rate in (120.0, 90.0, 400.0, 60.0, 81.0):
        u = (rate / 100.0) / (1 - 1 / 5)
        z = min(1.0, z / u)
        assert loop.step(rate, 100.0) == pytest.approx(z)


def test_throtloop_corrects_a_plan_that_passes_more_than_it_was_told():
    """Sources that pass 1.3 times z: the loop finds the z that still balances the queue."""
    loop = ThrotLoop(max_queue=10)
    for _ in range(50):
        loop.step(arrivals_per_s=1.3 * 300.0 * loop.load, service_per_s=100.0)
    assert 1.3 * 300.0 * loop.load == pytest.approx(90.0)


def test_throtloop_does_not_wind_up_or_stick():
    loop = ThrotLoop(max_queue=10, floor=0.01, max_step=4.0)
    for _ in range(50):
        loop.step(arrivals_per_s=1e9, service_per_s=100.0)
    assert loop.load == 0.01
    loads = [loop.step(0.0, 100.0) for _ in range(4)]
    assert loads == pytest.approx([0.04, 0.16, 0.64, 1.0])
    # At 1 the unused capacity is not saved up: the next overload is answered at once.
    for _ in range(50):
        loop.step(1.0, 100.0)
    assert loop.step(180.0, 100.0) == pytest.approx(0.5)


def test_throtloop_keeps_a_simulated_queue_within_its_size():
    """M/M/1 with arrivals at twice the service rate; the measured loop, as a shedder drives it."""
    rng = random.Random(7)
    loop = ThrotLoop(max_queue=50, period_s=1.0)
    service_s = 0.01
    free_at, carry, queue, longest = 0.0, 0.0, [], 0
    passed = offered = 0
    for now in poisson_arrivals(rng, 200.0, 0.0, 120.0):
        while queue and queue[0] <= now:
            loop.served(1, service_s)
            queue.pop(0)
        carry += loop.before(now, 1)
        wanted = carry >= 1
        carry -= wanted
        keep = wanted and loop.allowed() >= 1
        if keep:
            free_at = max(free_at, now) + service_s
            queue.append(free_at)
        loop.after(int(keep), int(wanted) - int(keep))
        longest = max(longest, len(queue))
        if now > 30:
            passed += keep
            offered += 1
    assert longest < 50
    assert passed / 90.0 == pytest.approx(98.0, rel=0.05)


def test_throtloop_waits_until_it_knows_the_service_rate():
    loop = ThrotLoop(max_queue=10_000)
    for i in range(5):
        assert loop.before(float(i), 1000) == 1.0
        loop.after(1000)
    loop.served(100, 1.0)
    assert loop.before(5.0, 1000) < 0.2


@given(st.lists(st.tuples(st.floats(0, 1e12), st.floats(1e-6, 1e12)), max_size=40))
def test_throtloop_stays_between_floor_and_one(rates):
    loop = ThrotLoop(max_queue=3)
    for arrivals, service in rates:
        assert 0.001 <= loop.step(arrivals, service) <= 1.0


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: FixedThrottle(1.5), "load must lie in"),
        (lambda: FixedThrottle(math.nan), "load must lie in"),
        (lambda: FeedForwardThrottle(0.0), "capacity_per_s must be a positive number"),
        (lambda: FeedForwardThrottle(math.inf), "capacity_per_s must be a positive number"),
        (lambda: FeedForwardThrottle(1.0, window_s=-1), "window_s must be a positive number"),
        (lambda: FeedForwardThrottle(1.0, floor=0.0), "floor must lie in"),
        (lambda: FeedForwardThrottle(1.0, slack=0), "slack must be a positive number"),
        (lambda: CpuShare(0.0), "share must lie in"),
        (lambda: RateMonitor(period_s=0), "period_s must be a positive number"),
        (lambda: RateMonitor(periods=2), "periods must be at least 3"),
        (lambda: ThrotLoop(1), "max_queue must be at least 2, got 1"),
        (lambda: ThrotLoop(2, max_step=1.0), "max_step must be greater than 1"),
    ],
)
def test_nonsense_settings_are_refused(make, message):
    with pytest.raises(InvalidInput, match=message):
        make()


def test_a_processor_share_holds_although_the_cost_is_not_known():
    """An operator that takes 3 ms per unit behind a throttle that believes in 1 microsecond."""
    throttle = CpuShare(0.25, unit_cost_s=1e-6)
    spent, seconds = 0.0, 60
    for tenth in range(10 * seconds):
        passed = offer(throttle, tenth / 10, 100)
        throttle.served(passed, passed * 0.003)
        spent += passed * 0.003
    first = 100 * 0.003  # until the first report nobody can know
    assert 0.95 * 0.25 * seconds <= spent <= 0.25 * seconds + throttle.slack + first
    assert throttle.unit_cost_s == pytest.approx(0.003, rel=1e-6)


@pytest.mark.parametrize("seed", range(5))
def test_rates_told_during_a_period_cover_what_comes_in_it(seed):
    """Poisson counts on a slope: two deviations of head room cover about 97 of 100 periods."""
    rng = np.random.default_rng(seed)
    monitor, covered, periods = RateMonitor(head_room=2.0), 0, 200
    for second in range(periods):
        true = {"i1": 500 + second, "i2": 50}
        told, came = dict.fromkeys(true, 0.0), dict.fromkeys(true, 0)
        for hundredth in range(1, 101):
            counts = {name: int(rng.poisson(rate / 100)) for name, rate in true.items()}
            load = monitor.before(second + hundredth / 100, counts)
            told = {name: told[name] + load.get(name, 0.0) / 100 for name in true}
            came = {name: came[name] + counts[name] for name in true}
        if second > 5:
            covered += sum(told[name] >= came[name] for name in true)
    assert covered / (2 * (periods - 6)) > 0.9
    assert told["i1"] < 900


@pytest.mark.parametrize("lasts_s", [0.001, 0.01, 0.3, 1.0, 2.5, 8.0])
def test_rates_do_not_depend_on_how_long_batches_last(lasts_s):
    """Also with empty batches in between, as a polling source makes them."""
    monitor, now = RateMonitor(head_room=0.0), 0.0
    while now < 40.0:
        now += lasts_s
        load = monitor.before(now, {"i1": 3000.0 * lasts_s, "i2": 200.0 * lasts_s})
        assert monitor.before(now + lasts_s / 3, {"i1": 0, "i2": 0}) == load
    assert load == pytest.approx({"i1": 3000.0, "i2": 200.0}, rel=1e-6)


@pytest.mark.parametrize("lasts_s", [0.01, 0.1])
def test_a_rate_that_doubles_is_known_within_a_fraction_of_its_period(lasts_s):
    monitor, now = RateMonitor(head_room=0.0), 0.0
    for k in range(1000):
        now += lasts_s
        load = monitor.before(now, {"i1": (1000 if k < 950 else 2000) * lasts_s})["i1"]
        if now > 950 * lasts_s + 0.3:
            assert load > 1850
    assert load == pytest.approx(2000, rel=0.05)


def test_a_burst_counts_before_its_period_is_over():
    monitor = RateMonitor(period_s=10.0)
    monitor.before(0.0, {"i1": 100})
    assert monitor.before(0.1, {"i1": 5000}) == {"i1": 500.0}  # of a whole period, at least

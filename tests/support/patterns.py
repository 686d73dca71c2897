"""Patterns of batches, and what passed of them in the worst stretch of time."""

import numpy as np

CAPACITY = 1000.0


def poisson(segments, step=0.01, seed=3):
    rng = np.random.default_rng(seed)
    at = 0.0
    for seconds, rate in segments:
        for _ in range(int(seconds / step)):
            at += step
            yield at, int(rng.poisson(rate * step))


PATTERNS = {
    "Poisson, 1,000/s then 10,000/s": list(poisson([(10, 1000), (10, 10_000)])),
    "Poisson, 1,000/s then 100,000/s": list(poisson([(10, 1000), (10, 100_000)])),
    "60 s of silence, then 10,000/s": [(0.0, 1), (0.5, 10)]
    + [(60 + i * 0.01, 100) for i in range(1000)],
    "0.1 s at 100,000/s, 0.9 s silent": [
        (i + j * 0.01, 1000) for i in range(60) for j in range(10)
    ],
    "0.1 s at 100,000/s, 1.9 s silent": [
        (2 * i + j * 0.01, 1000) for i in range(30) for j in range(10)
    ],
    "0.1 s at 100,000/s, 9.9 s silent": [
        (10 * i + j * 0.01, 1000) for i in range(60) for j in range(10)
    ],
    "10,000 each second": [(float(i), 10_000) for i in range(120)],
    "100 and 19,900 each second": [(float(i), 100 if i % 2 else 19_900) for i in range(120)],
    "100 and 9,900 each half second": [(i * 0.5, 100 if i % 2 else 9900) for i in range(240)],
    "nine times 100, then 99,100": [(float(i), 100 if i % 10 else 99_100) for i in range(300)],
    "50,000 each 5 s": [(5.0 * i, 50_000) for i in range(30)],
    "1,000,000 at first, then 100 per 0.1 s": [(0.0, 1_000_000)]
    + [(0.1 * i, 100) for i in range(1, 300)],
}
"""Of `burst.py`; two more of its patterns differ in budget and window only."""


def worst_excess(times, passed, capacity=CAPACITY):
    """Return the most that passed beyond capacity x time, over all stretches of time.

    A stretch begins and ends with a batch, both included.
    """
    times, passed = np.asarray(times, dtype=float), np.asarray(passed, dtype=float)
    after = np.cumsum(passed) - capacity * times
    before = np.cumsum(passed) - passed - capacity * times
    return float((after - np.minimum.accumulate(before)).max())

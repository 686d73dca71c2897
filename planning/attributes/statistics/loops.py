"""Compiled loops over one entity's reports: lag errors, and what dead bands send and lose."""

from __future__ import annotations

from typing import Any

import numba
import numpy as np

from planning.arrays import BoolArray, FloatArray, IntArray
from planning.attributes.kernels import FOLLOWED, SHEDDABLE, deviation, hold_loss


@numba.njit(cache=True)
def lag_sums(x: FloatArray, numeric: BoolArray, lags: IntArray) -> Any:
    """Return (squared differences, mismatches) per lag and attribute of reports that far apart."""
    n, m = x.shape
    squares = np.zeros((len(lags), m))
    mismatches = np.zeros((len(lags), m))
    for a in range(len(lags)):
        lag = lags[a]
        for t in range(lag, n):
            for j in range(m):
                now, then = x[t, j], x[t - lag, j]
                if np.isnan(now) or np.isnan(then):
                    if np.isnan(now) != np.isnan(then):
                        mismatches[a, j] += 1.0
                elif numeric[j]:
                    squares[a, j] += (now - then) * (now - then)
                elif now != then:
                    mismatches[a, j] += 1.0
    return squares, mismatches


@numba.njit(cache=True)
def dead_band_sums(
    x: FloatArray,
    numeric: BoolArray,
    role: IntArray,
    scale: FloatArray,
    bands: FloatArray,
    refresh: int,
) -> Any:
    """Return (values sent, summed error) per band and attribute when only changes are sent.

    A number is sent when it differs from the last sent one by more than ``band * scale``, a
    category when it changed and the band is below 1, null when it comes or goes; everything at
    least every ``refresh`` reports (0: never for age alone). The first report is sent. The third
    result counts, per band, the reports in which anything is due that may be shed, or any change
    of what is followed.
    """
    n, m = x.shape
    sent = np.zeros((len(bands), m))
    error = np.zeros((len(bands), m))
    tuples = np.zeros(len(bands))
    for b in range(len(bands)):
        last, age = x[0].copy(), np.zeros(m, np.int64)
        for t in range(n):
            due = False
            for j in range(m):
                now = x[t, j]
                age[j] += 1
                distance = deviation(now, last[j], numeric[j], scale[j])
                if t == 0 or (refresh > 0 and age[j] >= refresh) or distance > bands[b]:
                    sent[b, j] += 1.0
                    last[j] = now
                    age[j] = 0
                    due = due or role[j] == SHEDDABLE
                else:
                    error[b, j] += hold_loss(distance, now, last[j], numeric[j], scale[j])
                if role[j] == FOLLOWED and deviation(now, x[t - (t > 0), j], numeric[j], 1.0) > 0.0:
                    due = True
            tuples[b] += due
    return sent, error, tuples

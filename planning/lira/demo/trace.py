"""Cars on a road network, second by second: what LIRA is tried on (Section 4.2).

A car follows an arc at its class's speed times the driver's own factor, speeds up and slows down
within limits, slows for bends, sometimes waits at a junction, and turns according to traffic
volume. Everything is drawn from one seed; the tracks are the same on every machine.
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

from planning.lira.demo.roads import SPEED_MPS, RoadNetwork

ACCELERATION = 1.8  # m/s²
BRAKING = 2.5
STOP_PROBABILITY = (0.25, 0.3, 0.1, 0.0)  # at a junction, by class of road
LONGEST_STOP_S = 35.0


def drive(
    roads: RoadNetwork, rng: np.random.Generator, cars: int, seconds: int
) -> NDArray[np.float32]:
    """Put cars on the arcs in proportion to volume · length / speed, and let them drive.

    Returns (x, y) in metres, ``[car, second]``.
    """
    speed = np.asarray(SPEED_MPS)[roads.arc_kind]
    mass = roads.arc_volume * roads.arc_length / speed
    arc = rng.choice(mass.size, size=cars, p=mass / mass.sum())
    positions = np.empty((cars, seconds, 2), dtype=np.float32)
    _drive(
        positions, roads.junctions, roads.first_arc, roads.arc_from, roads.arc_to, roads.arc_kind,
        roads.arc_volume, roads.arc_length, np.asarray(SPEED_MPS), np.asarray(STOP_PROBABILITY),
        arc, rng.random(cars), np.clip(rng.normal(1.0, 0.1, cars), 0.7, 1.3),
        rng.integers(1, 2**62, size=cars),
    )  # fmt: skip
    return positions


@njit(cache=True)
def uniform(state):  # type: ignore[no-untyped-def]
    """One step of xorshift64*: the new state and a number in [0, 1)."""
    state ^= state >> np.uint64(12)
    state ^= state << np.uint64(25)
    state ^= state >> np.uint64(27)
    return state, np.float64((state * np.uint64(2685821657736338717)) >> np.uint64(11)) / 2.0**53


@njit(cache=True)
def _turn(arc, first, source, target, volume, draw):  # type: ignore[no-untyped-def]
    """Choose the next arc by volume; turn back only out of a dead end."""
    junction = target[arc]
    total = 0.0
    for a in range(first[junction], first[junction + 1]):
        if target[a] != source[arc]:
            total += volume[a]
    if total == 0.0:
        for a in range(first[junction], first[junction + 1]):
            if target[a] == source[arc]:
                return a
    wanted = draw * total
    chosen = first[junction]
    for a in range(first[junction], first[junction + 1]):
        if target[a] != source[arc]:
            chosen = a
            wanted -= volume[a]
            if wanted < 0.0:
                break
    return chosen


@njit(cache=True)
def _corner_speed(junctions, a, b, c, product):  # type: ignore[no-untyped-def]
    """Speed at which a car passes b on its way from a to c; ``product`` is of both lengths."""
    ux, uy = junctions[b, 0] - junctions[a, 0], junctions[b, 1] - junctions[a, 1]
    vx, vy = junctions[c, 0] - junctions[b, 0], junctions[c, 1] - junctions[b, 1]
    cosine = (ux * vx + uy * vy) / (product + 1e-9)
    return 4.0 + 26.0 * max(cosine, 0.0) ** 4 if cosine < 0.98 else 40.0


@njit(cache=True)
def _drive(  # type: ignore[no-untyped-def]
    out, junctions, first, source, target, kind, volume, length, speeds, stops, arcs, shares,
    factors, seeds,
):  # fmt: skip
    cars, seconds = out.shape[0], out.shape[1]
    for car in range(cars):
        state = np.uint64(seeds[car])
        arc = arcs[car]
        along = shares[car] * length[arc]
        mood = 0.0
        speed = speeds[kind[arc]] * factors[car]
        state, draw = uniform(state)
        following = _turn(arc, first, source, target, volume, draw)
        wait = 0.0
        stop_ahead = False
        for tick in range(seconds):
            a, b = source[arc], target[arc]
            share = along / length[arc]
            out[car, tick, 0] = junctions[a, 0] + share * (junctions[b, 0] - junctions[a, 0])
            out[car, tick, 1] = junctions[a, 1] + share * (junctions[b, 1] - junctions[a, 1])
            if wait > 0.0:
                wait -= 1.0
                speed = 0.0
                continue
            state, draw = uniform(state)
            mood = 0.95 * mood + 0.05 * (draw - 0.5)
            wanted = speeds[kind[arc]] * factors[car] * (1.0 + mood)
            corner = 0.5
            if not stop_ahead:
                product = length[arc] * length[following]
                corner = _corner_speed(junctions, a, b, target[following], product)
            gap = length[arc] - along
            wanted = min(wanted, np.sqrt(corner * corner + 2.0 * BRAKING * max(gap - speed, 0.0)))
            speed += min(max(wanted - speed, -2.0 * BRAKING), ACCELERATION)
            speed = max(speed, 0.5)
            along += speed
            while along >= length[arc]:
                along -= length[arc]
                if stop_ahead:
                    state, draw = uniform(state)
                    wait = 3.0 + draw * (LONGEST_STOP_S - 3.0)
                    along = 0.0
                arc = following
                state, draw = uniform(state)
                following = _turn(arc, first, source, target, volume, draw)
                junction = target[arc]
                state, draw = uniform(state)
                crossing = first[junction + 1] - first[junction] > 2
                stop_ahead = crossing and draw < stops[kind[arc]]
                if wait > 0.0:
                    break

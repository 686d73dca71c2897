"""A generated road network: expressways, arterials and collectors around a few town centres.

Stands in for the paper's USGS map of Chamblee, Georgia (Section 4.2, about 200 km²). Collectors and
arterials form a distorted lattice that thins out away from the towns; expressways are smooth lines
across it, joined by ramps where they pass an arterial. Every edge carries a traffic volume, which a
car's turn at a junction follows, so that flows stay as they start.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from planning.arrays import FloatArray, IntArray
from planning.errors import check_between

COLLECTOR, ARTERIAL, RAMP, EXPRESSWAY = 0, 1, 2, 3
SPEED_MPS = (11.0, 17.0, 15.0, 29.0)
VOLUME = (1.0, 6.0, 2.5, 22.0)
LATTICE_M = 400.0
ARTERIAL_EVERY = 5
PIECE_M = 160.0
SWAY_M = (6.0, 3.0, 6.0, 2.0)  # how far a road strays from the straight line, by class


@dataclass(frozen=True, slots=True, eq=False)
class RoadNetwork:
    """Directed arcs between junctions, grouped by the junction they leave.

    Attributes
    ----------
    junctions
        Position of each junction, metres, shape (J, 2).
    first_arc
        Arcs leaving junction j are first_arc[j] … first_arc[j + 1] − 1.
    arc_to, arc_kind
        Junction at the arc's end and the class of road.
    arc_volume
        Traffic volume; both directions of a road have the same.
    """

    junctions: FloatArray
    first_arc: IntArray
    arc_from: IntArray
    arc_to: IntArray
    arc_kind: IntArray
    arc_volume: FloatArray

    @property
    def arc_length(self) -> FloatArray:
        """Length of every arc, metres."""
        step = self.junctions[self.arc_to] - self.junctions[self.arc_from]
        return np.asarray(np.hypot(step[:, 0], step[:, 1]))


def generate_roads(rng: np.random.Generator, side_m: float) -> RoadNetwork:
    """Draw a network over [0, side_m]²; the same generator state gives the same roads."""
    check_between("side_m", side_m, 2000, 1e6, remedy="give the side of the square in metres")
    towns = _towns(rng, side_m)
    points, edges, kinds = _lattice(rng, side_m, towns)
    for _ in range(max(2, round(side_m / 5000))):
        _expressway(rng, side_m, points, edges, kinds)
    position, ends, kind = _pieces(rng, np.array(points), np.array(edges), np.array(kinds))
    ends, kind, position = _connected(ends, kind, position)
    return _network(np.clip(position, 0.5, side_m - 0.5), ends, kind, towns)


def _towns(rng: np.random.Generator, side: float) -> FloatArray:
    """Rows (x, y, spread, strength): where traffic concentrates."""
    count = max(3, round(side / 3000))
    where = rng.uniform(0.1 * side, 0.9 * side, size=(count, 2))
    spread = rng.uniform(0.05, 0.12, size=count) * side
    strength = rng.uniform(0.5, 1.0, size=count)
    return np.column_stack([where, spread, strength])


def _intensity(position: FloatArray, towns: FloatArray) -> FloatArray:
    """Return how busy a place is: 0.12 in the country, about 1 in a town's centre."""
    level = np.full(len(position), 0.12)
    for x, y, spread, strength in towns:
        squared = (position[:, 0] - x) ** 2 + (position[:, 1] - y) ** 2
        level += strength * np.exp(-squared / (2 * spread * spread))
    return level


def _lattice(
    rng: np.random.Generator, side: float, towns: FloatArray
) -> tuple[list[list[float]], list[tuple[int, int]], list[int]]:
    count = max(6, round(side / LATTICE_M)) + 1
    step = side / (count - 1)
    grid = np.stack(np.meshgrid(np.arange(count), np.arange(count), indexing="ij"), axis=-1)
    position = grid.reshape(-1, 2) * step + rng.normal(0, 0.12 * step, size=(count * count, 2))
    busy = _intensity(position, towns)
    points = position.tolist()
    edges: list[tuple[int, int]] = []
    kinds: list[int] = []
    for i in range(count):
        for j in range(count):
            here = i * count + j
            for there, line in ((here + count, j), (here + 1, i)):
                if (there >= count * count) or (there == here + 1 and j == count - 1):
                    continue
                arterial = line % ARTERIAL_EVERY == 2
                if arterial or rng.random() < 0.25 + 0.75 * min(1.0, busy[here]):
                    edges.append((here, there))
                    kinds.append(ARTERIAL if arterial else COLLECTOR)
    return points, edges, kinds


def _expressway(
    rng: np.random.Generator,
    side: float,
    points: list[list[float]],
    edges: list[tuple[int, int]],
    kinds: list[int],
) -> None:
    """Add one smooth line across the square, with ramps to the nearest lattice points."""
    angle = rng.uniform(0, np.pi)
    centre = side / 2 + rng.uniform(-0.25, 0.25, size=2) * side
    bend = rng.uniform(-0.12, 0.12) * side
    along = np.arange(-0.9 * side, 0.9 * side, 900.0)
    across = bend * np.sin(along / (0.35 * side))
    x = centre[0] + along * np.cos(angle) - across * np.sin(angle)
    y = centre[1] + along * np.sin(angle) + across * np.cos(angle)
    inside = (x > 0) & (x < side) & (y > 0) & (y < side)
    x, y = x[inside], y[inside]
    count = max(6, round(side / LATTICE_M)) + 1
    lattice = np.array(points[: count * count])
    arterial = np.unique([p for e, k in zip(edges, kinds, strict=True) if k == ARTERIAL for p in e])
    arterial = arterial[arterial < count * count]
    previous = -1
    for number, (px, py) in enumerate(zip(x.tolist(), y.tolist(), strict=True)):
        here = len(points)
        points.append([px, py])
        if previous >= 0:
            edges.append((previous, here))
            kinds.append(EXPRESSWAY)
        if number % 2 == 0:
            gap = np.hypot(lattice[arterial, 0] - px, lattice[arterial, 1] - py)
            edges.append((here, int(arterial[int(gap.argmin())])))
            kinds.append(RAMP)
        previous = here


def _pieces(
    rng: np.random.Generator, points: FloatArray, edges: IntArray, kinds: IntArray
) -> tuple[FloatArray, IntArray, IntArray]:
    """Bend every road: cut it into pieces and move the cuts a little sideways."""
    position = [points]
    ends: list[tuple[int, int]] = []
    kind: list[int] = []
    used = len(points)
    for (a, b), k in zip(edges.tolist(), kinds.tolist(), strict=True):
        step = points[b] - points[a]
        length = float(np.hypot(*step))
        pieces = max(1, round(length / PIECE_M))
        sway = SWAY_M[k] * rng.normal(size=pieces - 1)
        share = np.arange(1, pieces)[:, None] / pieces
        normal = np.array([-step[1], step[0]]) / max(length, 1.0)
        position.append(points[a] + share * step + sway[:, None] * normal)
        chain = [a, *range(used, used + pieces - 1), b]
        used += pieces - 1
        ends += list(zip(chain[:-1], chain[1:], strict=True))
        kind += [k] * pieces
    return np.concatenate(position), np.array(ends), np.array(kind)


def _connected(
    ends: IntArray, kind: IntArray, position: FloatArray
) -> tuple[IntArray, IntArray, FloatArray]:
    """Keep the largest connected part."""
    label = np.arange(len(position))
    while True:
        low = np.minimum(label[ends[:, 0]], label[ends[:, 1]])
        new = label.copy()
        np.minimum.at(new, ends[:, 0], low)
        np.minimum.at(new, ends[:, 1], low)
        new = new[new]
        if (new == label).all():
            break
        label = new
    names, sizes = np.unique(label[ends[:, 0]], return_counts=True)
    keep = label[ends[:, 0]] == names[sizes.argmax()]
    used, renumbered = np.unique(ends[keep], return_inverse=True)
    return renumbered.reshape(-1, 2), kind[keep], position[used]


def _network(
    position: FloatArray, ends: IntArray, kind: IntArray, towns: FloatArray
) -> RoadNetwork:
    middle = 0.5 * (position[ends[:, 0]] + position[ends[:, 1]])
    busy = _intensity(middle, towns)
    # Through traffic keeps expressways busy in the country too.
    local = np.where(kind == EXPRESSWAY, 0.5 + 0.5 * busy, busy)
    volume = np.asarray(VOLUME)[kind] * local
    start = np.concatenate([ends[:, 0], ends[:, 1]])
    stop = np.concatenate([ends[:, 1], ends[:, 0]])
    order = np.lexsort((stop, start))
    first = np.searchsorted(start[order], np.arange(len(position) + 1))
    both = np.concatenate([kind, kind])[order]
    volumes = np.concatenate([volume, volume])[order]
    return RoadNetwork(position, first.astype(np.int64), start[order], stop[order], both, volumes)

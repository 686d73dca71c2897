"""What the paper does not show: both directions, stale plans, set sizes, recorded streams."""

from __future__ import annotations

from itertools import product

from benchmarks import datasets
from benchmarks.joins import experiments, recorded
from benchmarks.joins.page import JoinsPage
from benchmarks.joins.scene import Scene
from benchmarks.joins.workload import Workload
from planning.joins import simulate
from planning.joins.layout import automatic_sizes


def directions(page: JoinsPage) -> None:
    """Compare Algorithms 4 and 5 where both directions are valuable."""
    page.section(
        "Both directions valuable: Algorithm 5 against Algorithm 4",
        "κ = 0.8, cycle = w, shift = w/2, so that both windows have a peak in the middle; output "
        "as a share of the complete join. The printed Algorithm 5 never processes everything.",
    )
    rows = experiments.directions((0.05, 0.1, 0.2, 0.3, 0.5, 0.7, 1.0))
    page.table(
        "directions", ["r", "Algorithm 4", "Algorithm 5", "5 / 4", "Algorithm 5 as printed"], rows
    )


def stale(page: JoinsPage) -> None:
    """Move the time correlation away from the plan."""
    moves = (0.0, 2.0) if page.quick else (0.0, 1.0, 2.0, 4.0)
    skews = (0.8,) if page.quick else (0.6, 0.8, 1.0)
    page.section(
        "Stale plans",
        "The time correlation moves at 60 s; output from then on, over random dropping. A change "
        "needs 15 s to reach the productive part of the window.",
    )
    rows = []
    for skew, moved in product(skews, moves):
        s = experiments.stale(moved, skew)
        noticed = "no" if s.noticed_s is None else f"{s.noticed_s:.0f} s"
        rows.append([skew, moved, s.kept, s.watched, s.fresh, noticed])
    header = ["κ", "moved, s", "stale plan", "watched", "new plan", "noticed after"]
    page.table("stale", header, rows)


def sizes(page: JoinsPage) -> None:
    """Cut types by the size of the set."""
    rows = []
    for skew in (0.0, 0.6) if page.quick else experiments.SKEWS:
        scene = Scene(Workload(skew=skew), seconds=60.0)
        base = scene.output(scene.random())
        cut = scene.but(sizes=automatic_sizes(10, scene.condition))
        rows.append(
            [skew, scene.output(scene.planned()) / base, cut.output(cut.planned()) / base]
        )
    page.section(
        "Types cut by set size",
        "Beyond the paper: a set of seven items matches far more often than one of three, and its "
        "size is known before any comparison. Output over random dropping at 500 tuples/s.",
    )
    page.table("sizes", ["κ", "plan / random", "with classes up to 2, 3, …, 9, more items"], rows)


def real(page: JoinsPage) -> None:
    """Shed real recordings, planned on the first half and tested on the second."""
    folder = datasets.find("joins").parent
    page.section(
        "Real streams",
        "Share of the complete join's output that is kept, planned on the first half of the "
        "recording and tried on the second. Flights: departures and arrivals of one aircraft "
        "within 12 h. Wikipedia: edits of articles and other pages with a common title word, or by "
        "the same user, within 2 h.",
    )
    rows = []
    for make in (recorded.flights, recorded.wiki_keywords, recorded.wiki_users):
        pair = make(folder)
        if page.quick and len(pair.left) > 50_000:
            pair = pair.shortened(0.25)
        for sizes in ((), (0, 1, 2, 3)) if pair.condition.kind == "overlap" else ((),):
            early, late = pair.halves()
            plan = pair.plan(early, sizes)
            for o in simulate.measure(plan, late[0], late[1], (0.1, 0.2, 0.3, 0.5)):
                label = f"{pair.name}, by set size" if sizes else pair.name
                rows.append([label, o.load, o.quality, o.random_quality, o.passed_fraction])
    page.table("real", ["streams", "r", "plan", "random dropping", "comparisons made"], rows)

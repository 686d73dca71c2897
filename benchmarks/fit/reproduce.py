"""The paper's figures and tables, reproduced: ``make reproduce FAMILY=fit``.

Times are ours and only their order matters; what the paper states is next to them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.fit import claims, examples, experiments
from benchmarks.reproduction import Page
from planning.fit import figures
from planning.fit.plan import Plan
from planning.fit.planner import plan_network

Progress = Callable[[str], None]
BRIGHTER = 0.4  # densities fall so fast that most of the plane would be black

INTRODUCTION = """\
Made by `{command}`. The table holds what the paper's text states beside what was measured; the
sections below have the figures. Seconds are CPU seconds of one run on one machine: compare them
within a table only."""


def reproduce(folder: Path, quick: bool, progress: Progress) -> None:
    """Write every figure and table into ``folder``."""
    command = "make reproduce FAMILY=fit" + (" QUICK=1" if quick else "")
    page = Page(folder, "fit", "Staying FIT, reproduced", INTRODUCTION.format(command=command))
    for title, make in (
        ("Table 1 and Figure 7", _worked_examples),
        ("Figure 10", _figure_10),
        ("Figure 11", _figure_11),
        ("Figure 12", _figure_12),
        ("Figure 13", _figure_13),
        ("Figure 14", _figure_14),
        ("Table 3", _table_3),
        ("Figure 15", _figure_15),
        ("Critical regions", _critical_regions),
        ("Real rates", _real_rates),
    ):
        progress(title)
        make(page, quick)
    page.write()


def _lines(figure: Any, series: Mapping[str, tuple[Sequence[Any], Sequence[Any]]], x: str, y: str,
           *, log: bool = False) -> None:  # fmt: skip
    axes = figure.add_subplot()
    for name, (horizontal, vertical) in series.items():
        axes.plot(horizontal, vertical, marker="o", markersize=3, label=name)
    axes.set_xlabel(x)
    axes.set_ylabel(y)
    if log:
        axes.set_yscale("log")
    axes.legend(fontsize="small")


def _worked_examples(page: Page, quick: bool) -> None:
    rows = experiments.motivating_example()
    page.section(
        "Table 1: plans for server A of Figure 1",
        "Two queries over two servers, both inputs at rate 1. Plan 4 is what the optimum finds.",
    )
    header = ("plan", "reduced rates at A", "A.load", "A.throughput", "B.load", "B.throughput")
    page.table("table-1", header, rows)
    page.claim(*claims.table_1(rows))
    drop, local, at_input = experiments.complementary_plan()
    page.section(
        "Figure 7: splits supported by complementary plans",
        f"At r = 0.2 the optimum drops {drop:.0%} on the bottom branch and delivers {local:.2f}; "
        f"dropping 37.5 % at the input delivers {at_input:.2f}.",
    )
    page.claim(*claims.figure_7(drop, local, at_input))


def _figure_10(page: Page, quick: bool) -> None:
    rows = experiments.load_distribution()
    page.section(
        "Figure 10: effect of query load distribution",
        "Plan generation for the networks of Figure 9 at an error of 5 %. The paper's Solver calls "
        "a library for every corner (GLPK there, GLOP here); ours uses the warm simplex. Solver-W "
        "gets the expected error that Solver reached under an exponential workload (lambda = 5); "
        "the paper reached 1.44 % on average.",
    )
    header = ("network", "Solver GLOP s", "Solver s", "C-FIT s", "Solver-W s", "Solver plans",
              "C-FIT plans", "Solver-W plans", "expected error", "critical regions")  # fmt: skip
    page.table("figure-10", header, rows)
    page.claim(*claims.figure_10(rows))
    names = [row[0] for row in rows]
    page.plot(
        "figure-10",
        lambda figure: _lines(
            figure,
            {
                "Solver (GLOP)": (names, [row[1] for row in rows]),
                "Solver": (names, [row[2] for row in rows]),
                "C-FIT": (names, [row[3] for row in rows]),
                "Solver-W": (names, [row[4] for row in rows]),
            },
            "network of Figure 9",
            "plan generation (s)",
            log=True,
        ),
    )


def _figure_11(page: Page, quick: bool) -> None:
    page.section(
        "Figure 11: system provision level",
        "Solver-W at an expected error of 1.5 %. (a) The larger lambda, the more mass lies above "
        "the feasibility boundary and the more plans are needed. (c) On a real trace (NASA, images "
        "and shuttle) better provision needs fewer plans, until it levels off.",
    )
    lambdas = (1, 3, 5) if quick else (1, 2, 3, 4, 5)
    rows = experiments.provision_by_lambda(lambdas)
    page.table("figure-11a", ("network", *(f"lambda {k}: plans" for k in lambdas)), rows)
    page.claim(*claims.figure_11a(rows))
    page.plot(
        "figure-11a",
        lambda figure: _lines(
            figure,
            {f"9({row[0]})": (lambdas, row[1:]) for row in rows},
            "lambda",
            "Solver-W plans",
        ),
    )
    trace = experiments.trace_rates()
    if trace is None:
        page.text("The real trace is not at hand (`HEADGATE_DATA`): (b) and (c) left out.")
        return

    def histogram(figure: Any) -> None:
        axes = figure.add_subplot()
        axes.hist(trace, bins=30, label=["images", "shuttle"])
        axes.set_xlabel("requests per second over a minute, x 100")
        axes.set_ylabel("minutes")
        axes.set_yscale("log")
        axes.legend()

    page.plot("figure-11b", histogram)
    page.claim(*claims.figure_11b(trace))
    levels = experiments.provision_by_cost((1.0, 0.75, 0.5) if quick else (1.0, 0.875, 0.75, 0.5))
    page.table("figure-11c", ("costs", "provision level", "plans", "s"), levels)
    page.claim(*claims.figure_11c(levels))


def _figure_12(page: Page, quick: bool) -> None:
    page.section(
        "Figure 12: exponential workloads",
        f"Joint density of two inputs, drawn to the power of {BRIGHTER:g}; the mass moves up as "
        "lambda grows, so lambda acts as a scale: we take a mean of 0.03 lambda of the highest "
        "rate.",
    )

    densities = experiments.densities((1, 3, 5))
    page.claim(*claims.figure_12(densities))

    def draw(figure: Any) -> None:
        for k, (level, density) in enumerate(densities.items()):
            axes = figure.add_subplot(1, 3, k + 1)
            axes.imshow(density.T**BRIGHTER, origin="lower", cmap="gray", extent=(0, 1, 0, 1))
            axes.set_title(f"lambda = {level}")

    page.plot("figure-12", draw, width=9.0)


def _figure_13(page: Page, quick: bool) -> None:
    fans = (2, 4, 8) if quick else (2, 4, 8, 16, 32)
    rows = experiments.fan_out(fans)
    page.section(
        "Figure 13: operator fan-out",
        "One input, one shared operator, growing fan-out, error 1 %. Both methods take longer with "
        "more branches, as in the paper.",
    )
    page.table("figure-13", ("fan-out", "Solver GLOP s", "C-FIT s", "Solver plans", "C-FIT plans",
                             "critical regions"), rows)  # fmt: skip
    page.claim(*claims.figure_13(rows))
    page.plot(
        "figure-13",
        lambda figure: _lines(
            figure,
            {"Solver (GLOP)": (fans, [r[1] for r in rows]), "C-FIT": (fans, [r[2] for r in rows])},
            "fan-out",
            "plan generation (s)",
        ),
    )


def _figure_14(page: Page, quick: bool) -> None:
    page.section(
        "Figure 14: input dimensionality",
        "(a) Expected error of Solver-W over time (lambda = 3). (b) C-FIT's plan generation time; "
        "its refusals are marked. Critical regions stay at 4, 9 and 25.",
    )
    paths = experiments.convergence(2.0 if quick else 10.0)
    page.claim(*claims.figure_14a(paths))

    def thin(path: list[tuple[float, float, int]]) -> list[tuple[float, float, int]]:
        return path[:: max(len(path) // 60, 1)]

    page.plot(
        "figure-14a",
        lambda figure: _lines(
            figure,
            {f"{k} inputs": ([p[0] for p in thin(path)], [p[1] for p in thin(path)])
             for k, path in paths.items()},
            "seconds",
            "expected error",
            log=True,
        ),
    )  # fmt: skip
    page.table(
        "figure-14a",
        ("inputs", "s", "plans", "expected error reached"),
        [(k, path[-1][0], path[-1][2], path[-1][1]) for k, path in paths.items()],
    )
    errors = (0.2, 0.1) if quick else (0.3, 0.2, 0.15, 0.1)
    rows = experiments.dimensions(errors, large=not quick)
    page.table("figure-14b", ("inputs", "error", "C-FIT s", "rows", "note"), rows)
    page.claim(*claims.figure_14b(rows))


def _table_3(page: Page, quick: bool) -> None:
    page.section(
        "Table 3: entries of the table of the input server, error 10 %",
        "The paper's samples stop somewhere above 0, which it does not state. With a floor at a "
        "tenth of the maximum feasible rate two inputs give the size it prints, but the error "
        "bound does not hold; with four inputs the paper has far fewer entries, by tactics that it "
        "does not describe. Ours pays for a floor that keeps the bound.",
    )
    rows = experiments.table_sizes(large=not quick)
    page.claim(*claims.table_3(rows))
    page.table(
        "table-3",
        ("inputs", "paper's entries", "paper's bytes/entry", "entries, floor at mfr/10",
         "entries that keep the bound", "bytes/entry", "critical regions"),
        rows,
    )  # fmt: skip


def _figure_15(page: Page, quick: bool) -> None:
    page.section(
        "Figure 15: overhead of D-FIT",
        "(a) Rows of the child's table by error and query load. (b), (c) Share of the child's new "
        "rows that must be sent so that the parent stays within a distance of the new scores, "
        "after a selectivity change and after load moved from parent to child.",
    )
    errors = (0.05, 0.1, 0.2)
    sizes = experiments.table_size_by_load(errors)
    page.table("figure-15a", ("load factor", *(f"error {e:g}" for e in errors)), sizes)
    page.claim(*claims.figure_15a(sizes))
    distances = (0.0, 0.05, 0.1, 0.2)
    for name, first, rows, claim in (
        ("15b", "selectivity", experiments.selectivity_deltas(distances), claims.figure_15b),
        ("15c", "moved ms", experiments.move_deltas(distances), claims.figure_15c),
    ):
        page.claim(*claim(rows))
        page.table(f"figure-{name}", (first, *(f"distance {d:g}" for d in distances)), rows)
        series = {f"{first} {row[0]}": (distances, row[1:]) for row in rows}
        page.plot(
            f"figure-{name}",
            partial(_lines, series=series, x="allowed distance from the score",
                    y="share of rows sent"),
        )  # fmt: skip


def _critical_regions(page: Page, quick: bool) -> None:
    network = examples.figure_9("b")
    plan = plan_network(network, method="regions")
    page.section(
        "Beyond the paper: critical regions",
        f"Network 9(b) needs {plan.plan_count} rules for zero error, where the quadtree stores "
        "hundreds of plans for 5 %. Within one colour the same arcs shed nothing, a part, or all.",
    )
    page.plot(
        "regions",
        lambda figure: draw_regions(plan, figure.add_subplot(), "i1", "i2"),
    )


def _real_rates(page: Page, quick: bool) -> None:
    page.section(
        "Beyond the paper: throughput over time on real rates",
        "Six kinds of web requests (NASA) on six servers in three fragments, one control period a "
        "minute; and the demo network, where all six inputs share four servers. Solver-W is "
        "planned from about 500 of the periods: its expected error holds for those, and with six "
        "inputs the others often fall into cells that it left coarse.",
    )
    compared = experiments.real_rates(quick)
    if compared is None:
        page.text("The real trace is not at hand (`HEADGATE_DATA`).")
        return
    for name, comparison in compared.items():
        rows: list[tuple[Any, ...]] = [
            (method, comparison.quality(method), comparison.share_of_optimum(method),
             comparison.plans.get(method, ""))
            for method in comparison.throughput
        ]  # fmt: skip
        rows += [(method, "refused", "", "") for method in comparison.refused]
        page.text(
            f"Network `{name}`, {len(comparison.offered)} periods, "
            f"{comparison.overloaded.mean():.0%} of them overloaded:"
        )
        header = ("method", "quality", "share of the optimum when overloaded", "plans")
        page.table(f"real-{name}", header, rows)

        def draw(figure: Any, comparison: Any = comparison) -> None:
            figures.draw_throughput(comparison, figure.add_subplot())

        page.plot(f"real-{name}", draw, width=9.0)


def draw_regions(plan: Plan, axes: Any, first: str, second: str, points: int = 200) -> None:
    """Colour the plane of two inputs by the set of arcs that shed; the others stay at the mean."""
    network = plan.network
    columns = [network.input_ids.index(name) for name in (first, second)]
    ticks = [np.linspace(0, network.max_rates[c], points) for c in columns]
    rates = np.tile(np.minimum(plan.reference, network.max_rates), (points * points, 1))
    grid = np.meshgrid(*ticks, indexing="ij")
    for column, values in zip(columns, grid, strict=True):
        rates[:, column] = values.ravel()
    drops = plan.at_many(rates)
    kinds = np.where(drops <= 1e-9, 0, np.where(drops >= 1 - 1e-9, 2, 1))
    _, code = np.unique(kinds, axis=0, return_inverse=True)
    axes.pcolormesh(
        ticks[0],
        ticks[1],
        code.reshape(points, points).T,
        cmap="tab20",
        shading="auto",
        rasterized=True,  # one path per cell would make an SVG of megabytes
    )
    axes.set_xlabel(f"{first} (tuples/s)")
    axes.set_ylabel(f"{second} (tuples/s)")
    axes.set_title("Where the same arcs shed")

"""All methods on a real rate series: bounds hold, and the picture states the shares."""

from __future__ import annotations

from matplotlib.figure import Figure

from benchmarks.fit.recorded import web_rates
from planning.fit import demo
from planning.fit.figures import draw_throughput
from planning.fit.printed.comparison import compare


def test_all_methods_on_real_rates(shared_data):
    network = demo.web()
    compared = compare(network, web_rates(network, 60)[:150])
    assert compared.refused == {}
    share = {name: compared.share_of_optimum(name) for name in compared.throughput}
    assert share["exact"] == 1.0
    for name, least in (("Solver 5 %", 0.95), ("Solver 10 %", 0.9), ("C-FIT 5 %", 0.95),
                        ("C-FIT 10 %", 0.9)):  # fmt: skip
        assert least <= share[name] <= 1 + 1e-9
        assert compared.highest_load[name] <= 1 + 1e-9
    assert share["local shedding"] < 0.95
    assert share["random dropping"] < 0.9
    axes = Figure().add_subplot()
    draw_throughput(compared, axes)
    assert [line.get_label() for line in axes.lines] == [
        f"{name}: {compared.share_of_optimum(name):.3f}" for name in compared.throughput
    ]

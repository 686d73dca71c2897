"""The reproduction writes every figure, table and claim."""

import csv
import re

import numpy as np
import pytest

from benchmarks.sifter.experiments import EXPERIMENTS
from benchmarks.sifter.reproduce import draw_quality, reproduce
from benchmarks.sifter.scene import drawn
from planning.sifter.demo import Settings


def test_quality_is_drawn_beside_random_dropping():
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots()
    draw_quality(drawn(Settings("SKEW", "SKEW"), 1, fresh=100).plan("cost_tree", 8), axes)
    ours, random = (line.get_ydata() for line in axes.lines)
    assert ours[0] == pytest.approx(random[0])
    assert ours[-1] == pytest.approx(random[-1])
    assert (ours[1:-1] > random[1:-1]).all()
    pyplot.close(figure)


@pytest.mark.slow
def test_the_command_writes_every_figure(tmp_path):
    said = []
    page = reproduce(tmp_path, quick=True, progress=said.append)
    assert len(said) == len(EXPERIMENTS)
    lines = page.read_text(encoding="utf-8").splitlines()
    head = lines.index("| figure | paper states | ours | verdict |")
    assert not any(line.startswith("##") for line in lines[:head])
    summary = [line for line in lines[head + 2 :] if line.startswith("| Figure ")]
    for number in range(3, 11):
        assert any(line.startswith(f"| Figure {number} |") for line in summary)
    for line in summary:
        assert re.search(r"\| (reproduced|differs: \w.*) \|$", line)
    tables = sorted(tmp_path.glob("*.csv"))
    assert len(tables) >= 15
    for table in tables:
        rows = list(csv.reader(table.open()))
        assert len(rows) > 1
        assert len({len(row) for row in rows}) == 1
    for name in re.findall(r"\]\((sifter-[^)]*)\)", "\n".join(lines)):
        assert (tmp_path / name).read_text(encoding="utf-8").startswith("<?xml")
    with (tmp_path / "sifter-figure-8-cost_tree.csv").open() as stream:
        rows = list(csv.reader(stream))
    quality = np.array(rows[1:], dtype=float)
    assert (np.diff(quality[:, 1:], axis=0) > 0).all()  # more is kept, more is answered

"""The report on streams of one's own folder."""

import numpy as np

from benchmarks.sifter import held_out


def test_files_that_are_not_there_are_named(tmp_path, capsys):
    assert held_out.main(str(tmp_path)) == 0
    printed = capsys.readouterr().out
    for name in held_out.STREAMS:
        assert f"{name} is not in {tmp_path}: skipped" in printed


def test_every_load_is_reported_with_the_best(tmp_path):
    rng = np.random.default_rng(0)
    place = rng.normal(0, 20, (4000, 2))
    lines = [f"01/02/1965,{a},{b},{5.5 + rng.exponential(0.4)}" for a, b in place.clip(-80, 80)]
    file = tmp_path / "earthquakes-23k.csv"
    file.write_text("Date,Latitude,Longitude,Magnitude\n" + "\n".join(lines) + "\n")
    table = held_out.rows(file.name, held_out.earthquakes(file))
    assert [row[2] for row in table] == ["0.1", "0.3", "0.5", "0.7", "0.9"] * 2
    for row in table:
        plan, random, queries_only = map(float, row[3:6])
        assert plan > random
        best = {"plan": plan, "random": random, "queries only": queries_only}[row[-1]]
        assert best == max(plan, random, queries_only)

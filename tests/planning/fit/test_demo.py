"""The demo stream: what it lands, and that it plans."""

from __future__ import annotations

from upath import UPath

from planning.fit import demo


def test_the_demo_lands_counts_with_some_bad_rows(definition, tmp_path):
    import pyarrow.parquet as parquet

    path = demo.land(UPath(tmp_path), 4, definition)
    again = demo.land(UPath(tmp_path / "again"), 4, definition)
    table = parquet.read_table(str(path))
    assert table.equals(parquet.read_table(str(again)))
    counts = table.column("tuples_out").to_numpy()
    assert 0 < (counts < 0).sum() < 0.01 * len(counts)
    assert table.num_rows == demo.PERIODS * 16


def test_the_demo_stream_is_the_demo_network(repository):
    from planning.streams import load

    stream = load(repository / "dags" / "streams" / "requests.yaml")
    assert stream.parameters.query_network.to_document() == demo.network().to_document()


def test_a_definition_plans_through_all_stages(definition, tmp_path):
    from planning.families import family
    from planning.home import Home
    from planning.stages import collect, gate, local, solve

    home = Home.at(tmp_path)
    demo.land(home.resolve(definition.landing), 0, definition)
    run = collect.collect(home, definition, "batch-0")
    local.validate(run)
    local.statistics(run)
    solve.solve(run)
    verdict = gate.gate(home, run)
    assert verdict["decision"] == "publish"
    made = solve.candidate(run)
    assert made.method == "regions"
    assert family("fit").room("plan").Plan is type(made)

"""D-FIT: one server's planning, and real processes over HTTP."""

from __future__ import annotations

import time
from collections.abc import Iterator

import msgspec
import numpy as np
import pytest

from benchmarks.fit import examples
from benchmarks.fit.cluster import Cluster
from planning.errors import InvalidInput, PlanningError
from planning.fit import QueryNetwork, optimum
from planning.fit.demo import operator
from planning.fit.dfit.chains import root_of
from planning.fit.dfit.controller import Delta, DFitServer
from planning.fit.dfit.sampling import plan_sampling
from planning.fit.dfit.servers import Server, servers_of
from planning.fit.printed import cfit

ERROR = 0.1


def tree() -> QueryNetwork:
    """A root with two children, one of which has a child: a filter and a split."""
    return QueryNetwork.from_document(
        {
            "name": "tree",
            "nodes": [
                {"id": "A", "capacity": 1.5, "parent": None},
                {"id": "B", "capacity": 0.8, "parent": "A"},
                {"id": "C", "capacity": 0.5, "parent": "A"},
                {"id": "D", "capacity": 0.3, "parent": "B"},
            ],
            "inputs": [{"id": "x", "max_rate": 4.0}, {"id": "y", "max_rate": 4.0}],
            "operators": [
                operator("a", "A", "map", 0.4, 1.0, "x"),
                operator("e", "A", "map", 0.5, 1.0, "y"),
                operator("b", "B", "filter", 0.5, 0.6, "a"),
                operator("c", "C", "map", 0.6, 1.0, "e"),
                operator("f", "C", "map", 0.2, 1.0, "e"),
                operator("d", "D", "map", 0.4, 1.0, "b"),
            ],
            "outputs": [
                {"id": "o1", "stream": "c", "weight": 1.0},
                {"id": "o2", "stream": "d", "weight": 2.0},
                {"id": "o3", "stream": "f", "weight": 0.5},
            ],
        }
    )


def planned(network: QueryNetwork) -> dict[str, DFitServer]:
    """All servers in this process, leaves first, exchanging documents."""
    sampling = plan_sampling(network, ERROR)
    servers: dict[str, DFitServer] = {}

    def make(name: str) -> None:
        server = msgspec.convert(msgspec.to_builtins(servers_of(network)[name]), Server)
        servers[name] = DFitServer(server, sampling)
        for child in server.children:
            make(child)
            delta = msgspec.convert(msgspec.to_builtins(servers[child].delta()), Delta)
            servers[name].receive(child, delta)
        servers[name].rebuild()

    make(root_of(network))
    return servers


def test_tables_equal_c_fit():
    network = tree()
    tables = cfit.build_tables(network, plan_sampling(network, ERROR))
    for name, server in planned(network).items():
        assert server.table is not None
        mine = sorted(zip(server.table.rates.tolist(), server.table.score.tolist(), strict=True))
        theirs = sorted(
            zip(tables[name].rates.tolist(), tables[name].score.tolist(), strict=True)
        )
        assert len(mine) == len(theirs)
        for (rates, score), (expected_rates, expected_score) in zip(mine, theirs, strict=True):
            assert rates == pytest.approx(expected_rates, rel=1e-12)
            assert score == pytest.approx(expected_score, rel=1e-9, abs=1e-12)


def lived(servers: dict[str, DFitServer], root: str, rates: dict[str, float], periods: int):
    """Push rates through all servers for some periods; return last loads and throughput."""
    for _ in range(periods):
        loads, throughput, waiting = {}, 0.0, [(root, rates)]
        while waiting:
            name, arriving = waiting.pop()
            load, sent, own = servers[name].flow(arriving)
            loads[name] = load / servers[name].server.capacity
            throughput += own
            waiting += list(sent.items())
            servers[name].decide(arriving)
    return loads, throughput


def test_decisions_are_feasible_and_near_the_optimum():
    network = tree()
    servers = planned(network)
    rng = np.random.default_rng(2)
    for _ in range(60):
        rates = dict(zip(network.input_ids, rng.uniform(0, 4, 2).tolist(), strict=True))
        # Drops lag one period behind per level of servers.
        loads, throughput = lived(servers, "A", rates, 4)
        assert max(loads.values()) <= 1 + 1e-9
        assert throughput >= (1 - ERROR) * optimum(network, rates).throughput - 1e-9


def test_unchanged_tables_send_nothing_and_changes_send_deltas():
    network = examples.figure_9("b", max_rate=40.0)
    sampling = plan_sampling(network, ERROR)
    child = DFitServer(servers_of(network)["B"], sampling)
    first = child.delta()
    assert first.full
    assert len(first.added) == child.table.count
    again = child.delta()
    assert (again.full, again.added, again.removed) == (False, [], [])
    child.change({"b1": {"cost": 0.040}})
    child.rebuild()
    costlier = child.delta()
    assert costlier.added == []  # nothing new is feasible, and what is gone follows from the loads
    child.change({"b1": {"cost": 0.030}})
    cheaper_table = child.rebuild()
    cheaper = child.delta()
    assert 0 < len(cheaper.added) < 0.5 * cheaper_table.count


def child_and_parent() -> tuple[DFitServer, DFitServer]:
    """Servers B and A of Figure 9(b); the parent knows the child's table."""
    network = examples.figure_9("b", max_rate=40.0)
    sampling = plan_sampling(network, ERROR)
    servers = servers_of(network)
    child, parent = DFitServer(servers["B"], sampling), DFitServer(servers["A"], sampling)
    parent.receive("B", child.delta())
    return child, parent


def test_a_selectivity_of_the_last_operator_changes_scores_only():
    child, parent = child_and_parent()
    child.change({"b1": {"selectivity": 0.5}})
    table = child.rebuild()
    delta = child.delta()
    assert (delta.added, delta.removed) == ([], [])  # scores travel as coefficients
    assert delta.value == pytest.approx([0.5, 1.0])
    parent.receive("B", delta)
    known = parent.children["B"].table("B")
    assert known.score.sum() == pytest.approx(table.score.sum())


def test_the_parent_knows_the_childs_table_after_deltas():
    child, parent = child_and_parent()
    network = examples.figure_9("b", max_rate=40.0)
    for cost in (0.040, 0.025, 0.032, 0.05):
        child.change({"b1": {"cost": cost}})
        table = child.rebuild()
        parent.receive("B", child.delta())
        known = parent.children["B"].table("B")
        assert sorted(map(tuple, known.rates.tolist())) == sorted(map(tuple, table.rates.tolist()))
        parent.rebuild()
        changed = network.with_operators({"b1": {"cost": cost}})
        fresh = cfit.build_tables(changed, parent.sampling)["A"]
        assert parent.table.count == fresh.count


def test_unknown_children_and_operators_are_refused():
    network = examples.figure_1()
    server = DFitServer(servers_of(network)["A"], plan_sampling(network, ERROR))
    with pytest.raises(InvalidInput, match="child must be one of B"):
        server.receive("Z", Delta(True, (), [], [], [], [], [], []))
    with pytest.raises(InvalidInput, match="b1"):
        server.change({"b1": {"cost": 1.0}})


def test_a_child_that_is_down_counts_as_wanting_nothing():
    network = tree()
    servers = planned(network)
    servers["A"].down.add("C")
    servers["A"].rebuild()
    loads, throughput = lived(
        {n: s for n, s in servers.items() if n != "C"} | {"C": servers["C"]},
        "A", {"x": 4.0, "y": 4.0}, 4,
    )  # fmt: skip
    assert loads["C"] == 0.0
    assert throughput == pytest.approx(
        optimum(network, [4.0, 0.0]).throughput, rel=ERROR
    )


def test_a_child_that_comes_back_is_planned_for_again():
    network = tree()
    servers = planned(network)
    before = servers["A"].table.rates.tolist()
    servers["A"].down.add("C")
    servers["A"].rebuild()
    assert servers["A"].table.rates.tolist() != before
    servers["A"].receive("C", servers["C"].delta(full=True))
    servers["A"].rebuild()
    assert servers["A"].table.rates.tolist() == before


def test_a_parent_that_lost_its_memory_asks_for_the_whole_table():
    from planning.fit.dfit.process import Process, Start

    network = examples.figure_9("b", max_rate=40.0)
    sampling = plan_sampling(network, ERROR)
    servers = servers_of(network)
    child = DFitServer(servers["B"], sampling)
    child.delta()
    fresh = Process(Start(servers["A"], sampling, deadline_s=60))
    message = {"child": "B", "delta": msgspec.to_builtins(child.delta())}
    assert fresh.table(message) == {"resync": True}
    assert not fresh.status()["ready"]
    message = {"child": "B", "delta": msgspec.to_builtins(child.delta(full=True))}
    assert fresh.table(message) == {"resync": False}
    assert fresh.status()["rows"] > 0


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(tree(), ERROR, deadline_s=160) as running:
        running.wait_planned()
        yield running


def periods(cluster: Cluster, rates: dict[str, float], count: int) -> list[dict]:
    return [cluster.period(rates) for _ in range(count)]


def test_processes_exchange_tables_and_count_messages(cluster: Cluster):
    network = cluster.network
    tables = cfit.build_tables(network, plan_sampling(network, ERROR))
    sizes = {name: table.count for name, table in tables.items()}
    for name in "ABCD":
        status = cluster.status(name)
        assert status["rows"] == sizes[name]
        if name != "A":
            assert status["rows_sent"] == sizes[name]
            assert status["table_messages"] >= 1
            assert status["table_bytes"] > 8 * sizes[name]
    assert cluster.status("A")["table_messages"] == 0


def test_processes_shed_in_concert(cluster: Cluster):
    rng = np.random.default_rng(3)
    for _ in range(5):
        rates = dict(zip(("x", "y"), rng.uniform(0, 4, 2).tolist(), strict=True))
        answers = periods(cluster, rates, 5)
        best = optimum(cluster.network, rates).throughput
        assert max(answers[-1]["loads"].values()) <= 1 + 1e-9
        assert best * (1 - ERROR) - 1e-9 <= answers[-1]["throughput"] <= best * (1 + 1e-9)


def test_a_server_is_above_capacity_for_one_period_at_most(cluster: Cluster):
    rng = np.random.default_rng(4)
    streak = dict.fromkeys("ABCD", 0)
    for _ in range(6):
        rates = dict(zip(("x", "y"), rng.uniform(0, 4, 2).tolist(), strict=True))
        for answer in periods(cluster, rates, 4):
            for name, load in answer["loads"].items():
                streak[name] = streak[name] + 1 if load > 1 + 1e-9 else 0
                assert streak[name] <= 1


def test_killing_a_process_leaves_the_others_safe(cluster: Cluster):
    rates = {"x": 3.0, "y": 4.0}
    periods(cluster, rates, 4)
    cluster.kill("C")
    streak = dict.fromkeys("ABD", 0)
    for answer in periods(cluster, rates, 5):
        assert "C" not in answer["loads"]
        for name, load in answer["loads"].items():
            streak[name] = streak[name] + 1 if load > 1 + 1e-9 else 0
            assert streak[name] <= 1
    # Nothing is spent on the lost child any more; its share of the root's CPU serves the other.
    assert cluster.status("A")["down"] == ["C"]
    alone = optimum(cluster.network, [3.0, 0.0]).throughput
    assert answer["throughput"] >= (1 - ERROR) * alone - 1e-9
    with pytest.raises(PlanningError, match="does not answer"):
        cluster.status("C")


def paced(cluster: Cluster, rates: dict[str, float], count: int) -> list[dict]:
    """Run control periods as a clock would start them."""
    answers = []
    for _ in range(count):
        time.sleep(0.7)
        answers.append(cluster.period(rates))
    return answers


def test_servers_that_come_back_rejoin_by_themselves_within_three_periods(cluster: Cluster):
    """A leaf that is killed and moves to another port, one with a child that is paused, the root.

    Runs after the test above, which has killed C.
    """
    rates = {"x": 3.0, "y": 4.0}
    if cluster.processes["C"].poll() is None:
        cluster.kill("C")
        periods(cluster, rates, 2)
    cluster.restart("C")
    assert set(paced(cluster, rates, 3)[-1]["loads"]) == set("ABCD")
    assert cluster.status("A")["down"] == []
    whole = periods(cluster, rates, 5)[-1]
    assert max(whole["loads"].values()) <= 1 + 1e-9
    assert whole["throughput"] >= (1 - ERROR) * optimum(tree(), rates).throughput - 1e-9

    cluster.pause("B")
    lost = paced(cluster, rates, 3)[-1]
    assert set(lost["loads"]) == set("AC")
    assert max(lost["loads"].values()) <= 1 + 1e-9
    assert cluster.status("A")["down"] == ["B"]
    cluster.resume("B")
    assert set(paced(cluster, rates, 3)[-1]["loads"]) == set("ABCD")
    assert periods(cluster, rates, 4)[-1]["loads"] == pytest.approx(whole["loads"])

    cluster.kill("A")
    cluster.restart("A")
    assert set(paced(cluster, rates, 3)[-1]["loads"]) == set("ABCD")
    assert periods(cluster, rates, 4)[-1]["throughput"] == pytest.approx(whole["throughput"])


def test_only_neighbours_are_heard():
    from planning.fit.dfit.process import Process, Start

    network = tree()
    process = Process(Start(servers_of(network)["B"], plan_sampling(network, ERROR), deadline_s=60))
    with pytest.raises(InvalidInput, match="neighbour, got 'C'"):
        process.alive({"server": "C", "address": "http://nowhere", "life": "1"})
    first = {"server": "D", "address": "http://here", "life": "1"}
    assert process.alive(first)["resync"]
    assert process.children == {"D": "http://here"}
    child = DFitServer(servers_of(network)["D"], plan_sampling(network, ERROR))
    process.table({"child": "D", "delta": msgspec.to_builtins(child.delta())})
    assert not process.alive(first)["resync"]
    moved = {"server": "D", "address": "http://there", "life": "2"}
    assert process.alive(moved)["resync"]
    assert process.alive(moved)["resync"]  # until its table has come
    assert process.children == {"D": "http://there"}


def test_late_tables_never_overload_a_server_twice():
    network = examples.figure_9("b", max_rate=40.0)
    with Cluster(network, ERROR, deadline_s=60, delays_s={"B": 0.7}) as cluster:
        cluster.wait_planned()
        rates = {"i1": 35.0, "i2": 30.0}
        periods(cluster, rates, 4)
        cluster.change("B", {"b1": {"cost": 0.060}})  # the parent will not know for a while
        streak = 0
        start = time.monotonic()
        while time.monotonic() - start < 1.5:
            load = cluster.period(rates)["loads"]["B"]
            streak = streak + 1 if load > 1 + 1e-9 else 0
            assert streak <= 1
        cluster.wait_planned()
        answer = periods(cluster, rates, 4)[-1]
        best = optimum(network.with_operators({"b1": {"cost": 0.060}}), rates).throughput
        assert answer["throughput"] >= (1 - ERROR) * best


def test_processes_end_by_themselves():
    with Cluster(examples.figure_1(), 0.3, deadline_s=4.0) as cluster:
        processes = list(cluster.processes.values())
        end = time.monotonic() + 20
        while time.monotonic() < end and any(p.poll() is None for p in processes):
            time.sleep(0.1)
        assert [p.poll() for p in processes] == [0, 0]

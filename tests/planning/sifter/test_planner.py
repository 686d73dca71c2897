"""The planner: what it says about its own plans."""

from planning.sifter import planner


def test_every_plan_is_exact_for_its_regions(scene):
    assert planner.solver_status(scene.plan(), scene.definition) == "exact"

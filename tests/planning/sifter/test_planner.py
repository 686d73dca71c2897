"""The planner: what it says about its own plans."""

from planning.sifter import planner, statistics


def test_every_plan_is_exact_for_its_regions(scene):
    assert planner.solver_status(scene.plan(), scene.definition) == "exact"


def warned(scene, **parameters):
    definition = scene.definition.with_parameters(parameters)
    built = statistics.build(scene.samples, definition)
    return planner.warnings(planner.plan(built, definition), built, definition)


def test_a_sound_plan_is_not_warned_about(scene):
    assert warned(scene, regions=16) == []


def test_few_regions_of_a_small_sample_are_warned_about_with_the_remedy(scene):
    (warning,) = warned(scene, regions=48, sample_size=40)
    assert "of 48 regions were made from 40 sampled tuples" in warning
    assert "raise sample_size, 2000 tuples are there" in warning


def test_without_more_samples_the_remedy_is_another(scene):
    (warning,) = warned(scene, regions=1000)
    assert "collect more samples, or ask for fewer regions" in warning

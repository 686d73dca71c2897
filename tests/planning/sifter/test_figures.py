"""Pictures of a plan."""

from planning.sifter import figures


def test_every_region_and_both_curves_are_drawn(scene):
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, (left, right) = pyplot.subplots(1, 2)
    figures.draw(scene.plan(), left)
    figures.draw_quality(scene.plan(), right)
    assert len(left.collections[0].get_paths()) == scene.plan().regions
    assert len(right.lines) == 2
    pyplot.close(figure)

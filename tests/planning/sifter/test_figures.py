"""The picture of a plan."""

from planning.sifter import figures


def test_every_region_is_drawn(scene):
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots()
    figures.draw(scene.plan(), axes)
    assert len(axes.collections[0].get_paths()) == scene.plan().regions
    pyplot.close(figure)

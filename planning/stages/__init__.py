"""The stages of a planning run, as plain functions over a run folder.

Airflow runs each as a task; ``headgate plan`` calls them one by one. What they pass on is kept in
the run's folder (:class:`planning.stages.run.Run`), never in memory:

collect → *validate* → *statistics* → solve → gate → publish

The two in italics are Spark apps (``spark_apps``); their NumPy counterparts, for small data and
machines without Java, are in :mod:`planning.stages.local`.

>>> import tempfile
>>> from planning.examples import demo_run
>>> from planning.home import Home
>>> from planning.stages import gate, local, publish, solve
>>> with tempfile.TemporaryDirectory() as folder:
...     home = Home.at(folder)
...     run = demo_run(home, "sifter")  # lands a batch of the demo stream and collects it
...     local.validate(run)
...     local.statistics(run)
...     summary = solve.solve(run)
...     verdict = gate.gate(home, run)
...     publish.publish(home, run, created_at="2026-01-02T03:04:05Z")["version"]
1
"""

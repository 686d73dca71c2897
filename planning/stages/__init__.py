"""The stages of a planning run, as plain functions over a run folder.

Airflow calls them one task each; ``headgate plan`` calls them in a row. What they hand on lies in
the run's folder (:class:`planning.stages.run.Run`), never in memory:

collect → *validate* → *statistics* → solve → gate → publish

The two in italics are Spark apps (``spark_apps``); their NumPy counterparts, for small data and
machines without Java, are in :mod:`planning.stages.local`.
"""

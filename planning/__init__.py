"""Headgate's library: plans what a data stream may lose, as a function of load.

One room per family (``sifter``, ``lira``, ``attributes``, ``joins``, ``fit``), each with the same
module names; the rest is what all families share. Nothing here imports Airflow or Spark, and what
runs on a source node (``plan``, ``shedder``, ``artifacts``, ``runtime``) imports neither a solver
nor pandas.
"""

__version__ = "0.1.0"

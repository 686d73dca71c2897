"""Run-time control: how much to compare, what the operator learns, whether the plan is stale.

``controller`` cuts the plan to what is affordable and measures what a comparison costs,
``estimate`` is what the operator learns while it runs, ``drift`` notices a stale plan. ``governed``
is the operator under this control; it is imported where a join is run, because it needs a compiler.
"""

from planning.joins.control.controller import Controller, Decision, Limits, MeasuredCost, View

__all__ = ["Controller", "Decision", "Limits", "MeasuredCost", "View"]

"""Which scheduled runs plan: a family may look less often while its plans stay the same.

A family with a module ``reevaluation`` decides (``due``) and keeps its state (``record``); for the
others every scheduled run plans. Runs triggered by hand always plan.
"""

from __future__ import annotations

from planning import families
from planning.families import Plan
from planning.home import Home
from planning.streams import StreamDefinition


def due(home: Home, definition: StreamDefinition, now_s: float) -> tuple[bool, str]:
    """Return whether a scheduled run should plan, and why.

    >>> from planning.examples import demo_definition
    >>> due(Home.at("memory://due"), demo_definition("sifter"), now_s=0.0)
    (True, 'every scheduled run plans')
    """
    family = families.family(definition.family)
    if not family.has_room("reevaluation"):
        return True, "every scheduled run plans"
    return family.room("reevaluation").due(home, definition, now_s)


def record(home: Home, definition: StreamDefinition, plan: Plan, now_s: float) -> None:
    """Record the outcome of a run for the next decision.

    >>> import tempfile
    >>> from planning.examples import demo_definition, demo_plan
    >>> sensors = demo_definition("attributes")
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     record(Home.at(folder), sensors, demo_plan("attributes"), now_s=0.0)
    ...     due(Home.at(folder), sensors, now_s=60.0)[0], due(Home.at(folder), sensors, 1e5)[0]
    (False, True)
    """
    family = families.family(definition.family)
    if family.has_room("reevaluation"):
        family.room("reevaluation").record(home, definition, plan, now_s)

"""FIT: coordinated load shedding over a network of servers.

Paper: Tatbul, Çetintemel, Zdonik, "Staying FIT: Efficient Load Shedding Techniques for Distributed
Stream Processing", VLDB 2007.

==============  ==========================================  =====================================
symbol          field                                       unit
==============  ==========================================  =====================================
N               ``QueryNetwork.nodes``                      servers
zeta_i          ``Node.capacity``                           CPU per second
D               ``Program.locations``                       drop locations (arcs)
c_i             ``Operator.cost``                           CPU per arriving tuple
s_i             ``Operator.selectivity``                    tuples out per tuple in
w_i             ``Operator.windows``                        tuples
r_j             ``rates``                                   tuples/s
x_j             1 − drop fraction                           share kept on an arc
p_j             ``Output.weight``                           value per output tuple
epsilon         ``error`` of Solver, Solver-W, C-FIT        share of the optimal throughput
==============  ==========================================  =====================================
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from planning.fit.network import QueryNetwork
    from planning.fit.plan import Plan
    from planning.fit.solve import Optimum, optimum

__all__ = ["Optimum", "Plan", "QueryNetwork", "optimum"]

_HOMES = {"Optimum": "solve", "Plan": "plan", "QueryNetwork": "network", "optimum": "solve"}


def __getattr__(name: str) -> Any:
    """Import the public names on first use, so that a shedder never loads a solver."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)

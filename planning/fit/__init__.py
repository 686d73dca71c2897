"""FIT: coordinated load shedding over a network of servers.

Paper: Tatbul, Çetintemel, Zdonik, "Staying FIT: Efficient Load Shedding Techniques for Distributed
Stream Processing", VLDB 2007.

==============  ==========================================  =====================================
symbol          field                                       unit
==============  ==========================================  =====================================
N               ``QueryNetwork.nodes``                      servers
zeta_i          ``Node.capacity``                           CPU per second
D               ``SheddingProgram.locations``               drop locations (arcs)
c_i             ``Operator.cost``                           CPU per arriving tuple
s_i             ``Operator.selectivity``                    tuples out per tuple in
w_i             ``Operator.windows``                        tuples
r_j             ``rates``                                   tuples/s
x_j             1 − drop fraction                           share kept on an arc
p_j             ``Output.weight``                           value per output tuple
epsilon         ``error`` of Solver, Solver-W, C-FIT        share of the optimal throughput
==============  ==========================================  =====================================

The names below are imported on first use, so that a source node loads no solver.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from planning import lazy

if TYPE_CHECKING:
    from planning.fit.network import QueryNetwork
    from planning.fit.plan import Plan
    from planning.fit.planner import Optimum, optimum
    from planning.fit.shedder import Shedder
    from planning.fit.statistics import Statistics

__all__ = ["Optimum", "Plan", "QueryNetwork", "Shedder", "Statistics", "optimum"]

_ROOMS = {**lazy.NOUNS, "Optimum": "planner", "QueryNetwork": "network", "optimum": "planner"}


def __getattr__(name: str) -> Any:
    return lazy.load(__name__, name, _ROOMS)

"""Attribute shedding: which fields of every tuple to stop sending.

Paper: Ahuja and Ng, "A Dynamic Attribute-Based Load Shedding Scheme for Data Stream Management
Systems", 2007.

==============  ==========================  ===========================================
symbol          field                       unit
==============  ==========================  ===========================================
CID             ``cid``                     names of attributes
Cyclen          ``cycle_length``            tuples
W               ``window``                  tuples in a capacity window
R               ``tuple_bytes``             bytes per tuple before shedding
C               ``capacity_bytes``          bytes per window
C/R             ``load``, capacity ratio    fraction in [0, 1]
SD              ``deviation``               the attribute's unit
Δt              ``interval_s``              seconds between re-evaluations
s_j             ``size``                    bytes per value
H_j(k)          ``hold_error(k)``           loss of holding a value k reports (1 = worthless)
==============  ==========================  ===========================================

An *entity* is one value of the CID (a station, a company, a router); its tuples are its *reports*.

``Statistics``, ``Plan`` and ``Shedder`` are imported from here on first use, so that a source node
loads no planner.
"""

from __future__ import annotations

from typing import Any

from planning import lazy

__all__ = ["Plan", "Shedder", "Statistics"]


def __getattr__(name: str) -> Any:
    return lazy.load(__name__, name)

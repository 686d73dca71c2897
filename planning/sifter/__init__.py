"""NR sifters: which tuples to drop at the source, by region of the data space.

Paper: "Efficient Construction of Compact Shedding Filters for Data Stream Processing".

=============  ========================================  =============================
symbol         field                                     unit
=============  ========================================  =============================
z              ``throttle_fraction``, ``load``           fraction of the stream, [0, 1]
l              ``regions``                               count
Delta          ``fairness_threshold``                    difference of drop thresholds
U              the bounded sample, ``sample_size``       tuples
d(S_i)         ``drop_thresholds``                       fraction dropped, [0, 1]
f(S_i)         ``frequency``                             fraction of the stream
A(S_i)         ``region_qos``                            weighted QoS
B              ``base_qos``                              weighted QoS
w_q, alpha_q   ``weight``, ``slope``                     weights sum to 1; QoS per completeness
=============  ========================================  =============================

``Statistics``, ``Plan`` and ``Shedder`` are imported from here on first use, so that a source node
loads no planner.
"""

from __future__ import annotations

from typing import Any

from planning import lazy

__all__ = ["Plan", "Shedder", "Statistics"]


def __getattr__(name: str) -> Any:
    return lazy.load(__name__, name)

"""LIRA: which position updates mobile nodes leave out, by region of the plane.

Paper: "LIRA: Lightweight, Region-aware Load Shedding in Mobile CQ Systems".

=================  ===============================================  =======================
symbol             field                                            unit
=================  ===============================================  =======================
z                  ``throttle_fraction``, ``load``                  fraction of updates
l                  ``regions``                                      count
α                  ``cells``, ``side``                              cells per side
Δ_i                ``throttlers``                                   metres
Δmin (Δ⊢), Δmax    ``lowest_threshold``, ``highest_threshold``      metres
c_Δ, κ             (Δmax − Δmin)/``segments``, ``segments``         metres, count
Δ⇔                 ``fairness_threshold``                           metres
f(Δ)               ``reduction``, :class:`~.model.ReductionCurve`  updates over those of Δmin
m_i                ``importance`` (the paper's: ``queries``)        see :mod:`.planner`
n_i·s_i            ``weight``                                       share of updates
A_i                ``partition.rectangles``                         cells
E_C, E_P           ``containment``, ``position``                    ratio, metres
=================  ===============================================  =======================

``Statistics``, ``Plan`` and ``Shedder`` are imported from here on first use, so that a source node
loads no planner.
"""

from __future__ import annotations

from typing import Any

from planning import lazy

__all__ = ["Plan", "Shedder", "Statistics"]


def __getattr__(name: str) -> Any:
    return lazy.load(__name__, name)

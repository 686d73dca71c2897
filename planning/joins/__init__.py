"""Windowed stream joins under load: which comparisons a join should still make.

After Gedik, Wu, Yu and Liu, *CPU Load Shedding for Binary Stream Joins*. Tuples stay in the
windows; what is shed is comparisons with basic windows that yield little.

==============  ==========================================  ==================
symbol          field                                       unit
==============  ==========================================  ==================
w_i             ``Windows.window_s[i]``                     seconds
b               ``Windows.basic_window_s``                  seconds
n_i             ``Windows.counts[i]``                       basic windows
lambda_i        ``Plan.rates_per_s[i]``                     tuples per second
r               ``load``                                    share of comparisons
r_{i,z}         ``Setting.fractions[i, z]``                 share of window i
r_{i,j,z}       ``Setting.take[i, z, j]``                   share of B_{i,j}
s_i^j           ``Setting.order[i, z]``                     basic windows
o_{i,j}         ``Plan.density`` (with utilities)           per comparison
V(z)            ``Plan.utilities[z]``                       the user's
omega_{i,z}     ``Plan.type_frequency[i, z]``               share of stream i
gamma           ``Plan.monitor_fraction``                   share of tuples
==============  ==========================================  ==================

Windows are numbered 0 and 1; a tuple of stream 0 probes window 1 and vice versa.

Besides the usual modules of a family, ``layout`` reads rows as tuples, ``engine`` is the compiled
join operator, ``control`` runs it within a load or a budget, learns from what it finds and notices
a stale plan, and ``printed`` has the paper's Algorithms 1 to 5, as published and corrected.

``Statistics``, ``Plan`` and ``Shedder`` are imported from here on first use, so that a source node
loads no planner.
"""

from __future__ import annotations

from typing import Any

from planning import lazy

__all__ = ["Plan", "Shedder", "Statistics"]


def __getattr__(name: str) -> Any:
    return lazy.load(__name__, name)

"""Windowed stream joins under load: which comparisons a join should still make.

After Gedik, Wu, Yu and Liu, *CPU Load Shedding for Binary Stream Joins*. Tuples stay in the
windows; what is shed are comparisons with basic windows that yield little.

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

Windows are numbered 0 and 1; a tuple of stream 0 probes window 1 and the other way round.

Where things are, from the outside in:

====================  ============================================================================
what                  modules
====================  ============================================================================
the family's rooms    ``parameters``, ``statistics``, ``planner``, ``plan``, ``shedder``,
                      ``simulate``, ``demo``, ``figures``, ``reproduce``
nouns                 ``model`` (tuples, conditions, windows), ``layout`` (tuples as rows)
planning              ``selection`` (densities and the sorted list), ``linear_program`` (its
                      reference)
the operator          ``engine`` (``WindowedJoin``) over compiled ``probe`` (one tuple at a time),
                      ``storage`` (windows in arrays) and ``bitmaps`` (64 tuples at a time)
run-time control      ``control`` (how much, and measured costs), ``estimate`` (what the operator
                      learns), ``drift`` (whether the plan is stale)
the paper             ``algorithms`` (1 to 5, printed and corrected), ``workload`` (its
                      workload), ``analysis`` (Section 5.1.1), ``reference`` (joins in plain
                      Python)
experiments           ``costmodel`` (a processor of known speed), ``strategies`` (ways to shed on
                      it), ``scene`` (one setting), ``experiments`` (the bars), ``recorded``
                      (real streams); ``reproduce_rates``, ``beyond`` and ``page`` for the report
====================  ============================================================================

``Statistics``, ``Plan`` and ``Shedder`` are imported from here on first use, so that a source node
loads no planner.
"""

from __future__ import annotations

from typing import Any

from planning import lazy

__all__ = ["Plan", "Shedder", "Statistics"]


def __getattr__(name: str) -> Any:
    return lazy.load(__name__, name)

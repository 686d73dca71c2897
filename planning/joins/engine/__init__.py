"""The windowed join operator: :class:`WindowedJoin`, over compiled code.

``join`` is the operator, ``probe`` compares one tuple, ``storage`` keeps both windows in arrays,
and ``bitmaps`` compare 64 stored tuples at a time.
"""

from planning.joins.engine.join import Access, Matches, WindowedJoin, compile_all
from planning.joins.engine.storage import Selection

__all__ = ["Access", "Matches", "Selection", "WindowedJoin", "compile_all"]

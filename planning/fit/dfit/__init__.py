"""D-FIT: feasible input tables, and servers that exchange them and shed in concert (Section 6).

=================  =========================================================================
module             holds
=================  =========================================================================
``servers``        what one server knows about itself
``sampling``       where tables are sampled, and the error budget behind it
``tables``         the table of a server without children
``merging``        the table of a server with children
``point_quadtree`` the index over the rows of a table
``chains``         which rows matter where servers form a chain
``controller``     one server's table, its deltas to the parent, its drops every control period
``process``        a server as a process that speaks HTTP
=================  =========================================================================
"""

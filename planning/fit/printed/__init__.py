"""The paper's own methods, with an error bound: Solver, Solver-W and C-FIT."""

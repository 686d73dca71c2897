"""The run-time solver: the program in its shedding form, and a simplex that follows the rates."""

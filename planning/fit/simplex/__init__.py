"""The run-time solver: a simplex that follows the rates and certifies every answer."""

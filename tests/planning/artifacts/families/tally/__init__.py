"""A family for tests: keeps the items whose value reaches a cut that depends on the load."""

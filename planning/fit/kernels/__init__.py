"""Compiled loops: drops, and the look-up of what a plan stores for a rate vector."""

"""Measurements of every family's bars, side by side in one run: ``make bench``."""

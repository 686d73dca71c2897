"""Spark apps: one per statistic, thin argument parsing around DataFrame functions."""

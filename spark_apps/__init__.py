"""Spark apps: one per statistic, thin argument parsing around DataFrame functions."""

STATISTICS_APPS = {
    "sifter": "region_frequencies",
    "lira": "statistics_grid",
    "attributes": "attribute_profile",
    "joins": "match_histogram",
    "fit": "operator_statistics",
}
"""The application that makes each family's statistics; a test requires one per family."""

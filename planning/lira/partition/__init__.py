"""Shedding regions: trees of halvings over the statistics grid, and the search for good ones."""

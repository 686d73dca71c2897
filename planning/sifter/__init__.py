"""NR sifters: which tuples to drop at the source, by region of the data space."""

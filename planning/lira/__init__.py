"""LIRA: which position updates mobile nodes leave out, by region of the plane."""

"""After the run: statistics, published values and tables, read from the store alone."""

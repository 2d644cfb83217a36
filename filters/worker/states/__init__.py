"""State of one resource set: counts, names, averages, and their record."""

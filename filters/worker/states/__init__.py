"""The state of one resource set: its counts, names, averages, and the record of them."""

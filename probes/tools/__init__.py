"""Tools vmstat and pidstat: the children that run them, and their parsers."""

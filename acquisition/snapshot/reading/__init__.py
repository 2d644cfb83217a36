"""Reading: positions, records and names of all hosts, and the verdict on each record."""

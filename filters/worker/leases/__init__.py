"""The leases of a filter worker: they avoid double work, and safety does not rest on them."""

"""Which worker has which partition: leases in the shards that avoid double work; safety does not rest on them."""

"""The way to the shard that owns the partition: connecting, finding the owner, sending, waiting."""

"""Link to the shard that owns the partition: finding, connecting, sending."""

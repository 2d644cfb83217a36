"""Reading latency of snapshots and hot lists, timed in a client process."""

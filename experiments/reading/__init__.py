"""What readers wait for: whole snapshots and hot lists, timed in a client process."""

"""What a deployment takes: the playbooks by the clock, and the probe as they leave it on a host."""

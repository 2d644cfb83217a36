"""What all sources share: readings, files of /proc, facts of the host, deadlines."""

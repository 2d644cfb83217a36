"""Runtime of long-running processes: background jobs and memory."""

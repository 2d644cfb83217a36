"""Common parts of all sources: readings, files of /proc, host facts, deadlines."""

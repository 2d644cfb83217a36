"""Archive cost in a running pipeline, from a backlog, and after kills."""

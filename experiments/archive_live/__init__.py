"""What the archive costs, live and in a backlog, and archivers that are killed: ``experiments.archive_live``."""

"""What the long-running processes of this package share: background jobs and the pace of garbage collection."""

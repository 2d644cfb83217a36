"""What long-running processes of this package share: background jobs, and how memory is given back."""

"""Migration steps, ordered by ``down_revision``; released steps never change."""

"""Minutes of resource sets: roll-ups, episodes and inventories of what was applied (no database)."""

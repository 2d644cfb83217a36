"""Minutes of resource sets: rollups, episodes and inventories (no database)."""

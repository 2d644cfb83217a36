"""Interface of resources: declaration, checks and description."""

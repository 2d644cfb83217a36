"""The archive: what must outlive the RAM databases, in SQL. Start at ``filters.archive.database.store``."""

"""Archive: long-term storage in SQL (start at ``filters.archive.database.store``)."""

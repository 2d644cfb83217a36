"""Cost of the archive: rows, disk and dropping of old parts."""

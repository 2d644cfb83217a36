"""The tables of the archive in SQLite or PostgreSQL, and what is written into them."""

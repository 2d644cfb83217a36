"""Database of the archive, in SQLite or PostgreSQL: tables and writes."""

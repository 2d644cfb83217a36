"""From the reader to decisions: makes the picture that rules judge, and reads and keeps the log of migrations."""

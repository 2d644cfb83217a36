"""Judging: pictures from the reader, verdicts, and the log of migrations."""

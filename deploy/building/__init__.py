"""Building: source of a commit, wheel, wheelhouse and bill of materials."""

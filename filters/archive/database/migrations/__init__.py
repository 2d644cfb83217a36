"""How a database comes from one version of the schema to the next, and back: one file per step."""

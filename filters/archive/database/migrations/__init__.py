"""Schema migrations, up and down, one file per step."""

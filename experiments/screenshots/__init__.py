"""The page as README shows it: a data center that is worth looking at, the real pipeline, a headless browser."""

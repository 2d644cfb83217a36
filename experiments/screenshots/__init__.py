"""Screenshot of the page for README: real pipeline, headless browser.

The data center is interesting to look at.
"""

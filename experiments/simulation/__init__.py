"""Simulated time: guests that wait on hosts, and their samples through the product's own filter step."""

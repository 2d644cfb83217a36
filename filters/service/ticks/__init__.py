"""Ticks of the service: readings, the answers made from them, the stream."""

"""Decisions: hot hosts, moves and reasons (start at ``picture`` and ``rule``)."""

"""Decisions: which hosts are hot, which VM to move, where to, and why. Start at ``picture`` and ``rule``."""

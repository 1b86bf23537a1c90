"""Finds bit rot in closed segments and repairs it."""

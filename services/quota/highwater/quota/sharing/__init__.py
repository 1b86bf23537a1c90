"""Limits shared out over nodes, and the metrics of it."""

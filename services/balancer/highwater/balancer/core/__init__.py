"""Decisions without I/O: the choice of a gateway for a connection."""

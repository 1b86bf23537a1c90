"""Decisions without I/O: which gateway a connection goes to."""

"""Decisions of the controller as pure functions: an image in, a change out; no I/O, no clock."""

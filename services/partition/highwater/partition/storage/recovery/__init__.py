"""Turns the files of a directory into a usable log."""

"""Clients that ask for more than a person would, found by their sessions."""

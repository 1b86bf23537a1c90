"""Whole frames to the paths and handlers that answer them, and back."""

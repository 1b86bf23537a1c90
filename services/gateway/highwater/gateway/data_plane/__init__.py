"""Produce and Fetch, from a decoded or recognised frame to the hop and back: the hot path."""

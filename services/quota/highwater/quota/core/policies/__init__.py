"""One module per way of sharing a limit out; `port.py` is what they have in common."""

"""One module per policy, that is, a way to divide a limit; `port.py` is their interface."""

"""The search for bit rot in closed segments."""

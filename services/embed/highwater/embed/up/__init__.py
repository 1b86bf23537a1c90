"""What each mode of `highwater up` needs: its options, data directory and ports, and "ready"."""

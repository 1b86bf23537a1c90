"""The commands of `highwater`, one module per group; `cli.py` puts them together.

Each imports its code only when it runs: what the others need must not slow its start.
"""

"""The commands of `highwater`, one module per group; each imports its code only when it runs."""

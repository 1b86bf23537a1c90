"""The commands of `highwater`, one module per group; each imports what it runs only when called."""

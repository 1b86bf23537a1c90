"""Log directories: locks, checkpoints, workers, and the logs in them."""

"""Log directories: their locks, checkpoints, workers, and the logs that they hold."""

"""Files of a partition node: segments, indexes, logs, checkpoints. The only code with disk I/O."""

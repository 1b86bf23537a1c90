"""Log compaction: the choice of a log, the child process that rewrites it, the swap of segments."""

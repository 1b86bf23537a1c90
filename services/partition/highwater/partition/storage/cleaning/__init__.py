"""Log compaction: choice of the next log, the child process that rewrites it, the swap."""

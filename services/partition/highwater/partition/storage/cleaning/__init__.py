"""Log compaction at work: which log is next, the child process that rewrites, the swap."""

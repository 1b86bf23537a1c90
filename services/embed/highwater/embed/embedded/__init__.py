"""`highwater up`: a whole cluster of one node in one process."""

"""Where a partition is led: the routing table and the links to nodes."""

"""The routing table, which knows each partition's leader, and the links to nodes."""

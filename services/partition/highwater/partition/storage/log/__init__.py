"""One partition's log: reads, appends, durability, truncation."""

"""Replication between nodes: both ends of the Replicate streams, and ISR proposals."""

"""Replication between nodes: the fetch streams' both ends, and proposals of ISRs."""

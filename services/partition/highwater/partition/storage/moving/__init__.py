"""Moves of logs between the log directories of a node (KIP-113)."""

"""The ledger, which divides limits among nodes, and its metrics."""

"""This node's part in quotas: it reports usage, gets its shares, and throttles by them."""

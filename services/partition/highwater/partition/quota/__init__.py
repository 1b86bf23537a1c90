"""This node's part in quotas: it reports usage, is told its shares, and measures against them."""

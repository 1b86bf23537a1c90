"""Decides on client quotas, without I/O: precedence, rates and delays."""

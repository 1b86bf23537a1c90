"""The rules for dividing limits: limits, policies, allocations. No I/O, no clock."""

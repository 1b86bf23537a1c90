"""Pure rules of sharing: limits, policies, allocations. No I/O, no clock."""

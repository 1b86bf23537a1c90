"""What consumer groups decide (KIP-848): no I/O, no clock, no randomness.

Read in this order: `state` (what the handlers share), `heartbeat` (one request), `targets`,
`assigning`, `fencing`, `subscribing`, `refresh`; then `upgrade`, `downgrade` and `classic_members`; `shard` (the
facade). The groups themselves are in `consumer`, where only records change them.
"""

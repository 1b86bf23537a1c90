"""The pure core of group coordination: no I/O, no clock, no randomness.

Read in this order: `state` (what may follow what), `group` (one group), `rebalance` (how a
generation is made), `joining`, `syncing`, `membership`, `offsets`, `admin` (one handler each),
`shard` (the facade). Durable state changes only in `durable.DurableState.replay`.
"""

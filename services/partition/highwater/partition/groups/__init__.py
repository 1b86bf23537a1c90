"""Group coordination: the classic rebalance protocol and committed offsets.

`core` decides (sans-IO), `records` is the format of `__consumer_offsets`, `snapshot` keeps the
durable state of a shard on disk, `runtime` is the asyncio shell that serves calls.
"""

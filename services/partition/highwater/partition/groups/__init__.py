"""Group coordination: the classic rebalance protocol and committed offsets.

`core` decides (sans-IO), `records` is the format of their topics, `kind` tells the host of
shards (`highwater.partition.coordinator`) what groups need, `runtime` passes calls to `handlers`.
"""

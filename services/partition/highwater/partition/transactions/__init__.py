"""Transaction coordination (KIP-98, KIP-360, KIP-890): who may write, and what became of it.

`core` decides (sans-IO), `records` is the format of their topics, `kind` tells the host of
shards (`highwater.partition.coordinator`) what transactions need, `runtime` passes calls to
`handlers`, and `marker_sender` brings the end of a transaction to the partitions that it wrote to.
"""

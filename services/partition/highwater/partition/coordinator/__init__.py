"""What every coordinator needs around its shards, whatever they coordinate.

A coordinator keeps its state in the partitions of a compacted internal topic, one shard for each
partition that this node leads (Kafka: module coordinator-common, `CoordinatorRuntime`). Read in
this order: `shard` (what a shard decides), `kind` (what differs between coordinators),
`shard_host` (one shard's life), `hosts` (all shards of a node), `calls` (from a call to shards).
"""

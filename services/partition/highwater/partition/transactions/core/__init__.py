"""The pure core of transaction coordination: no I/O, no clock, no randomness.

Read in this order: `state` (which state may follow which), `image` (one transactional id),
`transitions` (from image to image), `initializing`, `adding` and `ending` (what a request leads
to), `shard` (all transactional ids of one partition).
"""

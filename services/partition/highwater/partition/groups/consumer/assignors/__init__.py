"""Assignors of the consumer group protocol: pure, without clock and randomness.

Read in this order: `types`, `pace`, `readers`, `range`; `owners`, `hand_out`, `uniform`, `uniform_alike`,
`uniform_mixed`; `registry`.
"""

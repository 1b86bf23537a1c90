"""The hop between gateways and partition nodes: ports, message framing, streams, coalescing rules.

Gateways depend on the ports; the partition service implements them. In embedded mode both run in
one process; as services they use the gRPC streams of `highwater.api.partition.v1`.
"""

"""The hop between gateways and partition nodes: ports, message framing, streams, coalescing rules.

Gateways depend on the ports; the partition service implements them. Embedded, the two meet in
one process; as services, the gRPC streams of `highwater.api.partition.v1` stand between them.
"""

"""How gateways and other nodes reach this one: gRPC streams, and the link in process.

Only this package, `highwater.hop` and `replication` use the service's protobufs.
"""

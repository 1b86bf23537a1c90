"""How gateways and other nodes reach this one: gRPC streams, and the link in process.

With `highwater.hop` and `replication` the only users of the service's protobufs.
"""

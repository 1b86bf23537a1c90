"""The partition service's gRPC edge; with `highwater.hop` the only users of its protobufs."""

"""Adapters to the other services: the gateway's only users of gRPC."""

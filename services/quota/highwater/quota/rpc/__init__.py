"""The gRPC edge: the only modules of this service that know the generated messages."""

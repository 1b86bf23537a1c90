"""The controller's gRPC edge: converts protobuf, decides nothing."""

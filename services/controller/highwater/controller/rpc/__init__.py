"""The controller's gRPC edge: protobuf in and out, nothing decided here."""

"""The partition service: replicas, their storage and their data plane."""

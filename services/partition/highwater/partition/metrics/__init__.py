"""The partition service's Prometheus metrics."""

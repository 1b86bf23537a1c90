"""The controller's Prometheus metrics."""

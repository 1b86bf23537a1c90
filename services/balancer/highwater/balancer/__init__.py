"""A TCP balancer: publishes the port block of a cluster and spreads clients over its gateways."""

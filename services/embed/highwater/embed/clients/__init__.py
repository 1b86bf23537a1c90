"""What commands ask of a running cluster: over Kafka's protocol, of its controller, of /readyz."""

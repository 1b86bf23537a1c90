"""The gateway: speaks the Kafka wire protocol and fans requests out to partition nodes."""

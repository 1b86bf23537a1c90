"""A segment's files: records and indexes, in Kafka's format."""

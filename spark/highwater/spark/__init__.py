"""Spark jobs over Highwater topics, through Spark's own Kafka connector."""

"""Turns Kafka's JSON message schemas into straight-line Python codecs."""

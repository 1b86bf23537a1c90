"""The shell of a process: settings, logs, metrics, health, gRPC wiring, start and stop.

Knows asyncio and gRPC, nothing of Kafka and nothing of the services that use it.
"""

"""The shell of a process: settings, logs, metrics, health, gRPC wiring, start and stop.

It uses asyncio and gRPC, and depends neither on Kafka's protocol nor on any service.
"""

"""Operational monitoring: traffic by minute, and alarms by rules."""

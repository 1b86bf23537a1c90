"""The only socket code of the gateway: listeners, connections, sending."""

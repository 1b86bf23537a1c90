"""Client and gateway sockets: the relay between them, and the health of gateways."""

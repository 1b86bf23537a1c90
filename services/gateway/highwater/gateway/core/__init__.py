"""Sans-IO parts of the gateway: bytes in, requests out, ordered replies back."""

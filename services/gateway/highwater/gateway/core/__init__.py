"""The gateway's parts without I/O: bytes in, requests out, ordered replies back."""

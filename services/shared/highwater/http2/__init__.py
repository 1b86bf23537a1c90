"""HTTP/2 (RFC 9113) as gRPC needs it, without sockets, clock or event loop.

Bytes go in, calls on owners of streams (`ports.py`) and connections (`connection_owner.py`) come
out, and what is to be sent gathers in a list of buffers (`output.py`). `connection.py` puts the
parts together.
"""

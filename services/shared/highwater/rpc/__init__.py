"""gRPC over HTTP/2 on the event loop's own sockets, without threads: server, channel, health.

Made for few long streams that carry many messages: callbacks instead of a task per message, see
`ports.py`. `highwater.http2` has the protocol below it.
"""

"""Generated message codecs, one module per API; `request_codec` loads each on first use.

Importing this package loads none of them, so that a process starts fast and keeps in memory only
the APIs that it serves.
"""

from highwater.kafka.registry import ApiCodec, request_codec

__all__ = ["ApiCodec", "request_codec"]

"""Generated message codecs, one module an API; `request_codec` loads one when first asked for.

Importing this package loads none of them, so that a process starts fast and keeps in memory only
the APIs that it serves.
"""

from highwater.kafka.registry import ApiCodec, has_codec, request_codec

__all__ = ["ApiCodec", "has_codec", "request_codec"]

"""Error codes of HTTP/2 and the two kinds of violations (RFC 9113, sections 5.4 and 7)."""

from enum import IntEnum


class ErrorCode(IntEnum):
    """Error codes of RST_STREAM and GOAWAY (RFC 9113, section 7)."""

    NO_ERROR = 0x0
    PROTOCOL_ERROR = 0x1
    INTERNAL_ERROR = 0x2
    FLOW_CONTROL_ERROR = 0x3
    SETTINGS_TIMEOUT = 0x4
    STREAM_CLOSED = 0x5
    FRAME_SIZE_ERROR = 0x6
    REFUSED_STREAM = 0x7
    CANCEL = 0x8
    COMPRESSION_ERROR = 0x9
    CONNECT_ERROR = 0xA
    ENHANCE_YOUR_CALM = 0xB
    INADEQUATE_SECURITY = 0xC
    HTTP_1_1_REQUIRED = 0xD


class ConnectionViolationError(Exception):
    """The peer did what ends the connection, by GOAWAY (section 5.4.1)."""

    def __init__(self, code: ErrorCode, words: str) -> None:
        """Keep the code of the GOAWAY; `words` become its debug data."""
        super().__init__(words)
        self.code = code


class StreamViolationError(Exception):
    """The peer did what ends one stream, by RST_STREAM (section 5.4.2)."""

    def __init__(self, code: ErrorCode, words: str) -> None:
        """Keep the code of the RST_STREAM."""
        super().__init__(words)
        self.code = code

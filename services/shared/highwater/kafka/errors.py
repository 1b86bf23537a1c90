"""Errors of the codec, divided by whose fault they are.

`DecodeError` is the peer's fault: the bytes do not follow the protocol, so the connection is
closed or the batch is refused. `EncodeError` is ours: the message cannot be encoded in the wanted
version.
"""


class CodecError(ValueError):
    """Anything that goes wrong between bytes and objects."""


class EncodeError(CodecError):
    """The message cannot be written in this version; the caller built it wrongly."""


class DecodeError(CodecError):
    """The bytes do not follow the protocol; retrying the same bytes cannot help."""


class TruncatedError(DecodeError):
    """The input ends inside a field, or a length or count points past its end."""


class InvalidLengthError(DecodeError):
    """A length or count is negative, over a limit, or null where null is not allowed."""


class InvalidValueError(DecodeError):
    """A field's bytes are all there but do not form a value (bad UTF-8, overlong varint)."""


class UnknownApiKeyError(DecodeError):
    """The API key is not one that this codec has a schema for."""

    def __init__(self, api_key: int) -> None:
        """Keep the key that was asked for."""
        super().__init__(f"unknown api key {api_key}")
        self.api_key = api_key


class UnsupportedVersionError(DecodeError):
    """The API is known, this version of it is not."""

    def __init__(self, api_key: int, version: int) -> None:
        """Keep the key and the version that was asked for."""
        super().__init__(f"unsupported version {version} of api key {api_key}")
        self.api_key = api_key
        self.version = version


class RecordsError(DecodeError):
    """A record batch or its records are malformed."""


class UnknownCompressionError(RecordsError):
    """The batch's attributes name a compression codec that does not exist."""


class CorruptCompressedDataError(RecordsError):
    """The compressed payload cannot be decompressed."""


class DecompressedTooLargeError(RecordsError):
    """The payload decompresses to more bytes than the caller allows."""

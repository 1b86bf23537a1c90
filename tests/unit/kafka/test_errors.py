"""The error classes that callers catch."""

from highwater.kafka import errors


def test_every_error_of_decoding_is_a_decode_error() -> None:
    for kind in (
        errors.TruncatedError,
        errors.InvalidLengthError,
        errors.InvalidValueError,
        errors.UnknownApiKeyError,
        errors.UnsupportedVersionError,
        errors.RecordsError,
        errors.UnknownCompressionError,
        errors.CorruptCompressedDataError,
        errors.DecompressedTooLargeError,
    ):
        assert issubclass(kind, errors.DecodeError)
        assert not issubclass(kind, errors.EncodeError)


def test_errors_keep_key_and_version() -> None:
    unsupported = errors.UnsupportedVersionError(1, 99)
    assert (unsupported.api_key, unsupported.version) == (1, 99)
    assert "99" in str(unsupported)
    assert errors.UnknownApiKeyError(77).api_key == 77

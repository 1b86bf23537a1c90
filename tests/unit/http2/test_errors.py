from highwater.http2.errors import ConnectionViolationError, ErrorCode, StreamViolationError


def test_codes_are_those_of_the_rfc():
    assert [int(code) for code in ErrorCode] == list(range(14))
    assert ErrorCode.ENHANCE_YOUR_CALM == 0xB


def test_violations_keep_their_code():
    assert ConnectionViolationError(ErrorCode.CANCEL, "why").code is ErrorCode.CANCEL
    assert str(StreamViolationError(ErrorCode.CANCEL, "why")) == "why"

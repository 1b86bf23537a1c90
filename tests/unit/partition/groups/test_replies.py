from highwater.kafka.api_keys import ApiKey
from highwater.kafka.error_codes import ErrorCode
from highwater.partition.groups.replies import error_for


def test_offset_fetch_never_returns_coordinator_not_available():
    unavailable = ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert error_for(ApiKey.OFFSET_FETCH, unavailable) == ErrorCode.NOT_COORDINATOR
    assert error_for(int(ApiKey.OFFSET_FETCH), int(unavailable)) == ErrorCode.NOT_COORDINATOR
    for key in (ApiKey.OFFSET_COMMIT, ApiKey.JOIN_GROUP, ApiKey.DESCRIBE_GROUPS):
        assert error_for(key, unavailable) == unavailable
    for code in (ErrorCode.NONE, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS):
        assert error_for(ApiKey.OFFSET_FETCH, code) == code

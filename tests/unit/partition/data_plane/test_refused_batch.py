from highwater.hop.append import Failure
from highwater.kafka.error_codes import ErrorCode
from highwater.partition.data_plane.policy import AppendPolicy
from highwater.partition.data_plane.refusals import verdict_on
from highwater.partition.data_plane.refused_batch import RefusedBatch


def test_it_has_no_bytes_and_its_failure_is_the_verdict():
    failure = Failure(ErrorCode.CORRUPT_MESSAGE, "why")
    batch = RefusedBatch(failure)
    assert len(batch) == 0
    assert verdict_on(batch, AppendPolicy(), 0) is failure

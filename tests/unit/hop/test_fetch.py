"""A fetched partition releases its file if it is not sent."""

from highwater.hop.fetch import FetchedPartition


class Range:
    fd, position, length = -1, 0, 5

    def __init__(self):
        self.released = 0

    def release(self):
        self.released += 1


def test_a_result_that_is_not_sent_releases_its_file_once():
    found = Range()
    result = FetchedPartition(0, 10, 10, 0, found, 5)
    result.release()
    result.release()
    assert found.released == 1
    assert (result.records, result.nbytes) == (b"", 0)


def test_bytes_need_no_release():
    for records in (b"abc", bytearray(b"abc"), memoryview(b"abc")):
        result = FetchedPartition(0, 10, 10, 0, records, 3)
        result.release()
        assert result.nbytes == 0

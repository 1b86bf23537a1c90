"""Bytes by node, some of them read from files."""

from highwater.partition.replication.traffic import ReplicaTraffic


def test_bytes_add_up_by_node():
    traffic = ReplicaTraffic()
    traffic.sent(2, 100)
    traffic.sent(3, 1)
    traffic.sent(2, 10)
    traffic.received(3, 7)
    traffic.received(3, 70, 60)
    assert traffic.bytes_out == {2: 110, 3: 1}
    assert (traffic.bytes_in, traffic.file_bytes_in) == ({3: 77}, {3: 60})

from highwater.partition.coordinator.core.values import Moment, Reply


def test_replies_unpack_in_the_order_that_hosts_read():
    token, response, after_commit = Reply("call", 7, after_commit=True)
    assert (token, response, after_commit) == ("call", 7, True)


def test_a_moment_has_both_clocks():
    assert Moment(now_ms=1, wall_ms=2) == (1, 2)

from tests.unit.partition.coordinator.counter import COUNTERS, CounterShard


def test_log_events_begin_with_the_name():
    assert COUNTERS.event("shard_loaded") == "counter_shard_loaded"


def test_host_and_handlers_have_the_same_shard():
    shard = COUNTERS.new_shard()
    assert isinstance(shard, CounterShard)
    assert COUNTERS.hosted(shard) is shard


def test_most_coordinators_have_no_follow_ups():
    assert list(COUNTERS.follow_ups(COUNTERS.new_shard(), 0, 1)) == []


def test_most_coordinators_add_nothing_to_a_loaded_shard():
    shard = COUNTERS.new_shard()
    COUNTERS.activated(shard)
    assert shard.take_records() == []

"""A shard over time: timeouts, expiry, failovers, markers."""

import time

import pytest

from highwater.kafka.error_codes import ErrorCode
from highwater.model.ids import DEFAULT_INSTANCE, InstanceId
from highwater.partition.transactions.core.config import TransactionConfig
from highwater.partition.transactions.core.image import (
    TopicPartition,
    TransactionKey,
    TransactionRecord,
)
from highwater.partition.transactions.core.state import (
    COMPLETE_ABORT,
    COMPLETE_COMMIT,
    EMPTY,
    ONGOING,
    PREPARE_ABORT,
    TransactionState,
)
from highwater.partition.transactions.core.values import Filters, ProducerIdAndEpoch
from tests.unit.partition.transactions.core.dialogue import (
    LAST_EPOCH,
    T0,
    T1,
    WALL_MS,
    Dialogue,
    image,
    key,
)

ALL = Filters(frozenset(), frozenset(), has_state_filter=False, duration_ms=-1)


def test_the_life_of_a_transaction():
    d = Dialogue()
    me = d.begin()
    assert d.add(me, T0) == ErrorCode.NONE
    assert d.add(me, T1) == ErrorCode.NONE
    assert d.end(me).error == ErrorCode.NONE
    ((name, known, partitions),) = d.prepared
    assert (name, known.state.value, partitions) == (key(), "PrepareCommit", {T0, T1})
    d.shard.marker_written(key(), T0)
    assert d.shard.describe(key()).partitions == {T1}
    d.complete()
    assert [record.value.state.value for record in d.written] == [
        "Empty",
        "Ongoing",
        "Ongoing",
        "PrepareCommit",
        "CompleteCommit",
    ]


def test_a_prepared_transaction_is_completed_by_the_next_coordinator():
    d = Dialogue()
    me = d.begin()
    d.add(me, T0, T1)
    d.end(me, commit=False)
    d.shard.marker_written(key(), T0)
    d.reload()
    # Which partitions have the marker is not in the log: all get it again.
    ((name, known, partitions),) = d.prepared
    assert (name, known.state, partitions) == (key(), PREPARE_ABORT, {T0, T1})
    d.complete()
    d.reload()
    assert d.prepared == []
    assert d.image().state is COMPLETE_ABORT


def test_a_transaction_is_not_complete_before_its_markers():
    d = Dialogue()
    me = d.begin()
    d.add(me)
    d.end(me)
    with pytest.raises(AssertionError):
        d.shard.complete(key(), d.now)


def test_a_marker_of_a_former_transaction_does_no_harm():
    d = Dialogue()
    me = d.begin()
    d.add(me)
    d.shard.marker_written(key(), T0)
    d.shard.marker_written(key("unknown"), T0)
    assert d.shard.unmarked(key()) == frozenset()
    assert d.shard.describe(key()).partitions == {T0}


@pytest.mark.parametrize("version", [1, 2])
def test_an_open_transaction_times_out(version):
    d = Dialogue(version=version)
    me = d.begin()
    d.add(me, version=0)
    d.pass_ms(60_000)
    assert d.image().state is ONGOING
    d.pass_ms(10_000)
    assert d.image().state is PREPARE_ABORT
    assert d.image().producer_epoch == me.epoch + 1
    assert [each.key for each in d.prepared] == [key()]
    d.complete()
    # Its producer is fenced, whatever it does.
    assert d.add(me) == ErrorCode.PRODUCER_FENCED
    assert d.end(me, version=0).error == ErrorCode.PRODUCER_FENCED


def test_a_producer_of_version_2_learns_of_the_timeout_by_its_abort():
    d = Dialogue()
    me = d.begin()
    d.add(me)
    d.pass_ms(70_000)
    d.complete()
    assert d.end(me, commit=True).error == ErrorCode.INVALID_TXN_STATE
    answer = d.end(me, commit=False)
    assert (answer.error, answer.producer) == (ErrorCode.NONE, (me.producer_id, me.epoch + 1))


def test_a_timeout_waits_for_a_producer_id():
    d = Dialogue()
    d.put(image(producer_epoch=LAST_EPOCH, state=ONGOING, partitions=frozenset({T0})))
    d.has_ids = False
    d.pass_ms(70_000)
    assert d.image().state is ONGOING
    d.has_ids = True
    d.pass_ms(10_000)
    assert d.image().state is PREPARE_ABORT


def test_a_timeout_counts_from_the_start_also_after_a_failover():
    d = Dialogue()
    me = d.begin()
    d.add(me)
    d.pass_ms(55_000)
    d.reload()
    d.pass_ms(10_000)
    assert d.image().state is PREPARE_ABORT


@pytest.mark.parametrize("timeout_ms", [0, -1, 900_001, 2**31 - 1])
def test_timeouts_have_a_limit(timeout_ms):
    d = Dialogue()
    assert d.init(timeout_ms=timeout_ms).error == ErrorCode.INVALID_TRANSACTION_TIMEOUT
    assert d.init(timeout_ms=900_000).error == ErrorCode.NONE


def test_transactional_ids_expire_when_nothing_is_open():
    d = Dialogue(config=TransactionConfig(id_expiration_ms=1000, id_expiration_check_ms=500))
    first, second = d.begin("a"), d.begin("b")
    d.pass_ms(0)
    d.add(first, name="a")
    d.pass_ms(1000)
    d.pass_ms(500)
    assert set(d.shard.images) == {key("a")}
    assert d.written[-1] == (key("b"), None)
    assert d.add(second, name="b") == ErrorCode.INVALID_PRODUCER_ID_MAPPING
    assert d.shard.describe(key("b")) == ErrorCode.TRANSACTIONAL_ID_NOT_FOUND
    d.end(first, name="a")
    d.pass_ms(5000)
    assert set(d.shard.images) == {key("a")}, "prepared transactions do not expire"
    d.complete("a")
    d.pass_ms(2000)
    assert not d.shard.images
    d.reload()
    assert not d.shard.images


def test_checks_look_at_few_ids_at_once():
    d = Dialogue(config=TransactionConfig(ids_per_slice=2, abort_check_ms=100))
    for number in range(5):
        me = d.begin(f"tx{number}")
        d.add(me, name=f"tx{number}")
    d.now_ms = 200_000
    d.shard.expire(d.now)
    aborted = [name for name, known in d.shard.images.items() if known.state is PREPARE_ABORT]
    assert len(aborted) == 2
    d.pass_ms(10)
    d.pass_ms(10)
    assert all(known.state is PREPARE_ABORT for known in d.shard.images.values())


def test_the_number_of_ids_is_limited():
    d = Dialogue(config=TransactionConfig(ids_max=1))
    d.begin("a")
    assert d.init(name="b").error == ErrorCode.POLICY_VIOLATION
    assert d.init(name="a").error == ErrorCode.NONE


def test_instances_that_share_a_shard_get_as_many_ids_as_are_left():
    d = Dialogue(config=TransactionConfig(ids_max=4))

    def begins(instance, name):
        me = TransactionKey(InstanceId(instance), name)
        return d.shard.initialize(me, 1_000, None, d.now).error == ErrorCode.NONE

    assert [begins("red", name) for name in "abc"] == [True, True, False]
    assert begins("blue", "a")
    assert not begins("blue", "b")
    assert begins("late", "a")
    assert not begins("later", "a")
    assert begins("red", "a")
    assert [d.shard.count(InstanceId(name)) for name in ("red", "blue", "later")] == [2, 1, 0]


def test_an_empty_id_is_refused():
    d = Dialogue()
    me = ProducerIdAndEpoch(1, 0)
    assert d.init(name="").error == ErrorCode.INVALID_REQUEST
    assert d.add(me, name="") == ErrorCode.INVALID_REQUEST
    assert d.end(me, name="").error == ErrorCode.INVALID_REQUEST
    assert d.shard.verify(key(""), me, frozenset({T0})) == {T0: ErrorCode.INVALID_REQUEST}
    assert d.shard.describe(key("")) == ErrorCode.INVALID_REQUEST


def test_listing_filters():
    d = Dialogue()
    first = d.begin("a")
    d.begin("b")
    d.add(first, name="a")
    d.pass_ms(5_000)

    def names(**fields):
        filters = ALL._replace(**fields)
        found = d.shard.matching(DEFAULT_INSTANCE, filters, d.now.wall_ms)
        return [each.transactional_id for each, _ in found]

    assert names() == ["a", "b"]
    assert names(producer_ids=frozenset({first.producer_id})) == ["a"]
    assert names(states=frozenset({EMPTY}), has_state_filter=True) == ["b"]
    assert names(states=frozenset(), has_state_filter=True) == []
    assert names(duration_ms=4_999) == ["a", "b"]
    assert names(duration_ms=5_000) == ["b"]


def test_instances_have_their_own_transactions():
    d = Dialogue()
    team = InstanceId("team")
    mine = d.begin()
    theirs = d.shard.initialize(key(instance=team), 60_000, None, d.now).producer
    d.settle()
    assert theirs.producer_id != mine.producer_id
    d.add(mine, T0)
    assert d.shard.verify(key(instance=team), mine, frozenset({T0})) == {
        T0: ErrorCode.INVALID_PRODUCER_ID_MAPPING
    }
    assert d.shard.add(key(instance=team), theirs, frozenset({T1}), 2, d.now) == ErrorCode.NONE
    d.settle()
    d.reload()
    assert d.shard.describe(key()).partitions == {T0}
    assert d.shard.describe(key(instance=team)).partitions == {T1}
    assert [each for each, _ in d.shard.matching(team, ALL, d.now.wall_ms)] == [key(instance=team)]
    assert d.end(mine).error == ErrorCode.NONE
    assert [each.key for each in d.prepared] == [key()]
    assert d.shard.images[key(instance=team)].state is ONGOING


def test_verification_writes_nothing():
    d = Dialogue()
    me = d.begin()
    d.add(me, T0)
    before = len(d.written)
    assert d.shard.verify(key(), me, frozenset({T0})) == {T0: ErrorCode.NONE}
    d.settle()
    assert len(d.written) == before


def test_no_call_waits_in_a_shard():
    d = Dialogue()
    assert d.shard.parked_tokens() == []
    assert not d.shard.is_parked(object())
    d.shard.forget_call(object(), d.now)
    assert d.shard.capture().images == {}


def test_states_of_the_durable_copy_are_those_of_the_shard():
    d = Dialogue()
    me = d.begin()
    d.add(me)
    d.end(me)
    d.complete()
    (record,) = d.shard.capture().records()
    assert record.value.state is COMPLETE_COMMIT is TransactionState("CompleteCommit")
    assert record.value.update_ms == WALL_MS


class Purged(Dialogue):
    """The default instance is purged, as if it could be."""

    def begin_purge(self):
        self.shard.forgetting.begin({DEFAULT_INSTANCE})

    def step(self):
        self.shard.forgetting.step(self.now)
        self.settle()
        return len(self.shard.forgetting)


def test_the_ids_of_a_purged_instance_go():
    talk = Purged()
    talk.begin()
    other = key(instance=InstanceId("other"))
    talk.shard.initialize(other, 60_000, None, talk.now)
    talk.settle()
    talk.begin_purge()
    assert talk.step() == 0
    assert talk.written[-1] == TransactionRecord(key(), None)
    talk.reload()
    assert list(talk.shard.images) == [other]
    first = talk.shard.images[other].producer_id
    assert talk.begin().producer_id not in (first, 1000), "it begins with another producer id"


@pytest.mark.parametrize("reloads", [False, True])
def test_an_open_transaction_of_a_purged_instance_is_aborted_first(reloads):
    talk = Purged()
    talk.add(talk.begin(), T0, T1)
    talk.begin_purge()
    assert talk.step() == 1
    assert talk.image().state is PREPARE_ABORT
    if reloads:
        talk.reload()
        talk.begin_purge()
    assert talk.step() == 1, "its markers are on the way"
    talk.complete()
    assert talk.step() == 0
    assert not talk.shard.images
    assert talk.written[-1] == TransactionRecord(key(), None)


def test_without_another_producer_id_the_abort_is_tried_again():
    talk = Purged()
    talk.put(image(state=ONGOING, partitions=frozenset({T0}), producer_epoch=LAST_EPOCH))
    talk.has_ids = False
    talk.begin_purge()
    assert talk.step() == 1
    assert talk.image().state is ONGOING
    talk.has_ids = True
    assert talk.step() == 1
    assert talk.image().state is PREPARE_ABORT


def test_markers_of_a_transaction_with_many_partitions_cost_as_much_each_as_those_of_a_small_one():
    """Thousands are noted in one turn of the loop."""
    d = Dialogue()
    me = d.begin()
    many = [TopicPartition("t", number) for number in range(20_000)]
    assert d.add(me, *many) == ErrorCode.NONE
    assert d.end(me).error == ErrorCode.NONE
    begun_s = time.process_time()
    for partition in many:
        d.shard.marker_written(key(), partition)
    assert time.process_time() - begun_s < 1
    assert d.shard.unmarked(key()) == frozenset()

"""What a leader answers with acks=all: the product beside the model of `test_produce_failover`.

The model stays written for itself, so that the gateways' test is about what a gateway may rely on. Here
both get the same groups and events, and after each event both have given the same answers, in the same
order: new and known batches, refused ones among others, commits, epochs that end and begin.
"""

from pathlib import Path
from tempfile import TemporaryDirectory
from types import SimpleNamespace

from hypothesis import given, settings
from hypothesis import strategies as st

from highwater.kafka.error_codes import ErrorCode
from tests.property.test_produce_failover import Node as Model
from tests.support.log_batches import make_batch
from tests.unit.hop.sinks import Owner, group_of
from tests.unit.partition.data_plane.node import Node
from tests.unit.partition.data_plane.roles import NODE, follow, follower_fetched, image_says

FOLLOWER = 2
PRODUCERS = (7, 8)

BATCH = st.one_of(
    st.none(),
    st.tuples(st.sampled_from(PRODUCERS), st.sampled_from((-2, -1, 0, 0, 0, 0, 1))),
)
"""None is of no producer; else whose it is, and how far its sequence is from the next one."""
EVENTS = st.lists(
    st.one_of(
        st.tuples(st.just("append"), st.lists(BATCH, min_size=1, max_size=4)),
        st.tuples(st.just("commit"), st.integers(0, 3)),
        st.sampled_from([("depose", None), ("lead", None), ("stale", None)]),
    ),
    max_size=40,
)


class Both:
    """The product's replica on node 1 with a follower, and the model of a node."""

    def __init__(self, directory: Path) -> None:
        self.node = Node(directory)
        self.replica = self.node.add(lead=False)
        cluster = SimpleNamespace(near=True, stored=set(), held=None)
        self.model = Model(cluster, NODE)
        self.epoch = 4
        self.answers = []
        self.next = dict.fromkeys(PRODUCERS, 0)
        self.lead()

    def lead(self, _=None) -> None:
        if self.replica.leading:
            return
        self.epoch += 1
        image_says(self.replica, leader=NODE, epoch=self.epoch, replicas=(NODE, FOLLOWER))
        self.model.stop_leading()
        self.model.known = (NODE, self.epoch)

    def depose(self, _=None) -> None:
        self.epoch += 1
        follow(self.replica, FOLLOWER, self.epoch)
        self.model.stop_leading()
        self.model.known = (FOLLOWER, self.epoch)

    def stale(self, _=None) -> None:
        self._append([None], epoch=self.epoch - 1)

    def append(self, batches) -> None:
        self._append(batches, epoch=self.epoch)

    def _append(self, batches, epoch) -> None:
        made = [self._batch(batch) for batch in batches]
        group = group_of(
            *map(bytearray, made),
            acks=-1,
            epoch=epoch,
            owner=Owner(lambda _, failures: self.answers.append(_told(failures))),
        )
        self.node.plane.append([group])
        self.model.wire.append([group_of(*made, acks=-1, epoch=epoch), made, epoch])
        self.model.arrive()
        for producer in PRODUCERS:
            self.next[producer] = self._follows(producer)

    def _follows(self, producer: int) -> int:
        """The sequence that the log takes next."""
        found = self.replica.log.producers.states.entries()
        return next((e.last_sequence + 1 for e in found if e.producer_id == producer), 0)

    def _batch(self, batch):
        if batch is None:
            return make_batch()
        producer, distance = batch
        sequence = max(self.next[producer] + distance, 0)
        if distance == 0:
            self.next[producer] += 1
        return make_batch(producer_id=producer, producer_epoch=0, base_sequence=sequence)

    def commit(self, behind: int) -> None:
        """The follower has the log, but for the last few records."""
        if not self.replica.leading:
            return
        offset = max(self.replica.log.log_end_offset - behind, self.replica.high_watermark)
        follower_fetched(self.replica, FOLLOWER, offset)
        self.model.committed(offset)

    def check(self) -> None:
        assert self.answers == [_told(failures) for _, failures in self.model.answers]
        assert self.replica.log.log_end_offset == len(self.model.log.batches)


def _told(failures):
    """By place in the group, the code and the outcome."""
    return {place: (one.error_code, one.outcome) for place, one in (failures or {}).items()}


@settings(max_examples=150, deadline=None)
@given(EVENTS)
def test_the_product_answers_as_the_gateways_model_of_a_leader(events) -> None:
    with TemporaryDirectory() as directory:
        both = Both(Path(directory))
        for name, what in events:
            getattr(both, name)(what)
            both.check()
        both.lead()
        both.append([None, (7, 0), (7, 5)])
        both.check()
        both.commit(0)
        both.check()
        assert both.answers[-1] == {2: (ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, 1)}

"""What a directory whose disk is nearly full still takes."""

from highwater.hop.append import AppendGroup
from highwater.kafka.error_codes import ErrorCode
from highwater.model.ids import InstanceId, TopicId
from highwater.partition.data_plane.full_directory import FullDirectory
from highwater.partition.data_plane.node_group import NodeGroup
from highwater.partition.data_plane.plane import DataPlane
from tests.support.log_batches import make_batch
from tests.unit.hop.sinks import Owner

TOPIC = TopicId(b"t" * 16)
CLIENTS = AppendGroup(TOPIC, 0, 0, 1, InstanceId("i"), Owner())
OF_NODE = NodeGroup(TOPIC, 0, 0, Owner())


def test_clients_are_refused_first_and_the_node_itself_last():
    directory = FullDirectory("why", nothing_passes=False)
    refusal = directory.refuses(CLIENTS)
    assert refusal is not None
    assert (refusal.error_code, refusal.message) == (ErrorCode.KAFKA_STORAGE_ERROR, "why")
    assert directory.refuses(OF_NODE) is None
    last = FullDirectory("why", nothing_passes=True)
    assert last.refuses(CLIENTS) is not None
    assert last.refuses(OF_NODE) is not None


class Replica:
    log_dir = 1

    def __init__(self):
        self.appended = []

    def refuse_to_store(self, group, refusal):
        group.fail(refusal)

    def append(self, group):
        self.appended.append(group)


def test_the_data_plane_asks_for_the_directory_of_the_replica():
    plane = DataPlane(lambda *_: None, lambda *_: None)
    replica = plane.replicas[TOPIC, 0] = Replica()
    heard = []

    def send(kind):
        owner = Owner(lambda _, failures: heard.append(failures[0].error_code))
        group = (
            NodeGroup(TOPIC, 0, 0, owner)
            if kind is NodeGroup
            else AppendGroup(TOPIC, 0, 0, 1, InstanceId("i"), owner)
        )
        group.batches.append(make_batch())
        plane.append([group])

    plane.full_directories[0] = FullDirectory("another one", nothing_passes=True)
    send(AppendGroup)
    assert len(replica.appended) == 1
    plane.full_directories[1] = FullDirectory("why", nothing_passes=False)
    send(AppendGroup)
    send(NodeGroup)
    assert len(replica.appended) == 2
    plane.full_directories[1] = FullDirectory("why", nothing_passes=True)
    send(NodeGroup)
    assert heard == [ErrorCode.KAFKA_STORAGE_ERROR] * 2
    plane.full_directories.clear()
    send(AppendGroup)
    assert len(replica.appended) == 3

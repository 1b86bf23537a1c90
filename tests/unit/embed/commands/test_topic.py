import pytest

from highwater.embed.clients.kafka_client import BrokerError, TopicConfig
from highwater.kafka.messages import metadata


class Client:
    """Stands for the connection; `topics` are those of the broker."""

    def __init__(self):
        self.calls = []
        self.topics = []
        self.error = None

    def __call__(self, bootstrap, *, access):
        self.calls.append(("connect", bootstrap))
        self.access = access
        return self

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        self.calls.append(("close",))

    def metadata(self, names=None):
        found = [topic for topic in self.topics if names is None or topic.name in names]
        missing = [
            metadata.MetadataResponseMetadataResponseTopic(error_code=3, name=name)
            for name in names or ()
            if name not in {topic.name for topic in found}
        ]
        return metadata.MetadataResponse(topics=[*found, *missing])

    def create_topic(self, name, **wanted):
        if self.error is not None:
            raise self.error
        self.calls.append(("create", name, wanted))
        return 4

    def delete_topic(self, name):
        self.calls.append(("delete", name))

    def topic_configs(self, name):
        return [
            TopicConfig(name="retention.ms", value="5", is_default=False),
            TopicConfig(name="flush.ms", value="6", is_default=True),
        ]


@pytest.fixture
def client(monkeypatch):
    made = Client()
    monkeypatch.setattr("highwater.embed.clients.kafka_client.KafkaClient", made)
    return made


def topic(name, partitions, *, internal=False):
    return metadata.MetadataResponseMetadataResponseTopic(
        name=name, is_internal=internal, partitions=partitions
    )


def partition(index, leader, replicas=(1, 2), isr=(1,)):
    return metadata.MetadataResponseMetadataResponsePartition(
        partition_index=index,
        leader_id=leader,
        leader_epoch=8,
        replica_nodes=replicas,
        isr_nodes=isr,
    )


def cells(out):
    return [
        [cell.strip() for cell in line.split("│")[1:-1]] for line in out.splitlines() if "│" in line
    ]


def test_create(highwater, client):
    code, out, _ = highwater(
        "topic", "create", "t", "--bootstrap", "b:1", "--partitions", "4",
        "--replication-factor", "2", "--config", "a=b=c", "--config", "d=",
    )  # fmt: skip
    assert (code, out) == (0, "created topic t with 4 partitions\n")
    wanted = {"partitions": 4, "replication_factor": 2, "configs": {"a": "b=c", "d": ""}}
    assert client.calls == [("connect", "b:1"), ("create", "t", wanted), ("close",)]


def test_brokers_error_is_one_line_with_its_name(highwater, client):
    client.error = BrokerError(17, None, "topic a b")
    code, out, err = highwater("topic", "create", "a b")
    assert (code, out) == (1, "")
    assert err.startswith("highwater: topic a b: INVALID_TOPIC_EXCEPTION: ")
    assert err.count("\n") == 1


def test_list_is_sorted_and_leaves_internal_topics_out(highwater, client):
    client.topics = [
        topic("b", [partition(0, 1)]),
        topic("__consumer_offsets", [partition(0, 1)], internal=True),
        topic("a", [partition(0, 1), partition(1, 1)]),
    ]
    assert cells(highwater("topic", "list")[1]) == [["a", "2", "2"], ["b", "1", "2"]]
    assert len(cells(highwater("topic", "list", "--internal")[1])) == 3


def test_describe(highwater, client):
    client.topics = [topic("t", [partition(1, -1), partition(0, 2)])]
    code, out, _ = highwater("topic", "describe", "t")
    assert code == 0
    assert cells(out) == [["0", "2", "8", "1,2", "1"], ["1", "none", "8", "1,2", "1"]]
    assert "retention.ms=5" in out
    assert "flush.ms" not in out


def test_describe_a_missing_topic(highwater, client):
    code, _, err = highwater("topic", "describe", "t")
    assert code == 1
    assert "UNKNOWN_TOPIC_OR_PARTITION" in err


def test_delete(highwater, client):
    assert highwater("topic", "delete", "t")[1] == "deleted topic t\n"
    assert ("delete", "t") in client.calls

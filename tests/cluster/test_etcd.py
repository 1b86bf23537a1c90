"""`highwater up --etcd`: the metadata survives the loss of the controller's directory."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from highwater.embed.clients.kafka_client import KafkaClient
from tests.cluster.runner import Up
from tests.support.etcd import EtcdMemberProcess, etcd_missing, etcd_server

pytestmark = pytest.mark.etcd


@pytest.fixture
def etcd(tmp_path: Path) -> Iterator[EtcdMemberProcess]:
    if why := etcd_missing():
        pytest.skip(why)
    directory = tmp_path / "etcd"
    directory.mkdir()
    with etcd_server(directory) as server:
        yield server


@pytest.mark.parametrize("mode", ["embedded", "separate"])
def test_metadata_is_kept_in_etcd(mode: str, etcd: EtcdMemberProcess, tmp_path: Path):
    up = Up(mode, tmp_path, extra=("--etcd", etcd.endpoint))
    try:
        up.start()
        with KafkaClient(up.bootstrap) as client:
            client.create_topic("kept", partitions=2, replication_factor=1, configs={})
        assert up.stop() == 0
        assert not (up.data_dir / "controller" / "metadata.sqlite").exists()
        up.start()
        with KafkaClient(up.bootstrap) as client:
            (topic,) = client.metadata(["kept"]).topics
        assert topic.error_code == 0
        assert len(topic.partitions) == 2
    finally:
        up.stop()

import asyncio
import json

import pytest

from highwater.embed.clients.kafka_client import KafkaClient
from highwater.embed.embedded.broker import EmbeddedBroker
from highwater.embed.embedded.run import broker_settings
from highwater.embed.up.data_dir import DataDir
from highwater.embed.up.options import UpOptions
from highwater.model.errors import UsageError
from highwater.runtime.logging import silent_logger


def make(path, **flags):
    settings = broker_settings(UpOptions(data_dir=path, port=0, **flags))
    return EmbeddedBroker(settings, silent_logger())


def ask(port):
    with KafkaClient(f"127.0.0.1:{port}") as client:
        client.create_topic("t", partitions=2, replication_factor=1, configs={})
        (topic,) = client.metadata(["t"]).topics
        return len(topic.partitions)


async def test_serves_from_start_to_stop(tmp_path):
    broker = make(tmp_path)
    await broker.start()
    try:
        assert await asyncio.to_thread(ask, broker.port) == 2
        assert DataDir(tmp_path).read_controller_address() == broker.controller.address
        second = make(tmp_path)
        with pytest.raises(UsageError, match="in use by another broker"):
            await second.start()
        await second.stop()
    finally:
        await broker.stop()
    with pytest.raises(ConnectionRefusedError):
        await asyncio.open_connection("127.0.0.1", broker.port)
    with pytest.raises(UsageError, match="no broker runs"):
        DataDir(tmp_path).read_controller_address()


async def test_a_members_failure_ends_the_broker(tmp_path):
    broker = make(tmp_path)
    await broker.start()
    try:
        broker.partition.failed.set_exception(OSError("every disk is gone"))
        async with asyncio.timeout(5):
            with pytest.raises(OSError, match="every disk is gone"):
                await broker.failed
    finally:
        await broker.stop()


async def test_metrics_can_be_off(tmp_path):
    broker = make(tmp_path, metrics_port=0)
    await broker.start()
    try:
        assert broker.metrics_addresses == {}
        assert not (tmp_path / "metrics.json").exists()
    finally:
        await broker.stop()


@pytest.mark.parametrize("chosen", [False, True])
async def test_metrics_of_all_members(tmp_path, unused_port, chosen):
    broker = make(tmp_path, metrics_port=unused_port if chosen else None)
    await broker.start()
    try:
        (address,) = json.loads((tmp_path / "metrics.json").read_text()).values()
        assert broker.metrics_addresses == {"highwater": address}
        host, _, port = address.partition(":")
        assert (port == str(unused_port)) == chosen
        reader, writer = await asyncio.open_connection(host, int(port))
        writer.write(b"GET /metrics HTTP/1.1\r\n\r\n")
        page = await asyncio.wait_for(reader.read(), 10)
        writer.close()
        for name in (
            b"process_resident_memory_bytes",
            b"highwater_partition_",
            b"highwater_quota_",
        ):
            assert name in page
    finally:
        await broker.stop()
    assert not (tmp_path / "metrics.json").exists()

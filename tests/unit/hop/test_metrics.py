"""Prometheus' view of the hop's connections."""

from prometheus_client import CollectorRegistry

from highwater.hop.metrics import HopCollector
from highwater.http2.counters import ConnectionCounters
from highwater.rpc.statistics import Statistics

TOLD = Statistics(
    connections=1,
    unix_connections=14,
    streams=2,
    held_bytes=3,
    unsent_bytes=4,
    connections_opened=5,
    totals=ConnectionCounters(
        bytes_received=6,
        bytes_sent=7,
        streams_opened=8,
        resets_received=9,
        resets_sent=10,
        goaways_received=11,
        goaways_sent=12,
        stalls=13,
        given_up=15,
    ),
)


def test_every_number_has_a_name_and_an_end():
    registry = CollectorRegistry()
    registry.register(HopCollector("x", {"client": lambda: TOLD, "server": lambda: None}))
    values = {
        (sample.name.removeprefix("x_hop_"), sample.labels["end"]): sample.value
        for metric in registry.collect()
        for sample in metric.samples
    }
    assert values == {
        ("connections", "client"): 1,
        ("unix_connections", "client"): 14,
        ("streams", "client"): 2,
        ("held_bytes", "client"): 3,
        ("unsent_bytes", "client"): 4,
        ("connections_opened_total", "client"): 5,
        ("received_bytes_total", "client"): 6,
        ("sent_bytes_total", "client"): 7,
        ("streams_opened_total", "client"): 8,
        ("resets_received_total", "client"): 9,
        ("resets_sent_total", "client"): 10,
        ("goaways_received_total", "client"): 11,
        ("goaways_sent_total", "client"): 12,
        ("stalls_total", "client"): 13,
        ("given_up_total", "client"): 15,
    }

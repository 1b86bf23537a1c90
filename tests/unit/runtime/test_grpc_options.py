from highwater.runtime.grpc_options import (
    GRPCIO_KEEPALIVE_MS,
    options_to_others,
    server_options,
    shared_options,
)

ETCD_PROBES_MS_MIN = 5_000
"""etcd's --grpc-keepalive-min-time."""


def test_a_port_is_never_shared_between_servers():
    assert dict(server_options(1))["grpc.so_reuseport"] == 0


def test_servers_allow_the_probes_that_clients_send():
    probes_ms = dict(shared_options(1))["grpc.keepalive_time_ms"]
    assert probes_ms == GRPCIO_KEEPALIVE_MS
    server = dict(server_options(1))
    assert server["grpc.http2.min_recv_ping_interval_without_data_ms"] < probes_ms


def test_servers_of_others_are_probed_during_calls_only_and_less_often():
    ours, others = dict(shared_options(1)), dict(options_to_others(1))
    assert others.pop("grpc.keepalive_permit_without_calls") == 0
    assert ours.pop("grpc.keepalive_permit_without_calls") == 1
    assert others.pop("grpc.keepalive_time_ms") > ETCD_PROBES_MS_MIN
    del ours["grpc.keepalive_time_ms"]
    assert others == ours

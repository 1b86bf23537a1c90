from highwater.runtime.grpc_options import options_to_others, server_options, shared_options


def test_a_port_is_never_shared_between_servers():
    assert dict(server_options(1))["grpc.so_reuseport"] == 0


def test_servers_allow_the_probes_that_clients_send():
    probes_ms = dict(shared_options(1))["grpc.keepalive_time_ms"]
    server = dict(server_options(1))
    assert server["grpc.http2.min_recv_ping_interval_without_data_ms"] < probes_ms


def test_servers_of_others_are_probed_during_calls_only():
    ours, others = dict(shared_options(1)), dict(options_to_others(1))
    assert others.pop("grpc.keepalive_permit_without_calls") == 0
    assert ours.pop("grpc.keepalive_permit_without_calls") == 1
    assert others == ours

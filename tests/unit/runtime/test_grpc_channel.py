import json

from highwater.runtime.grpc_channel import service_config


def test_only_listed_methods_are_retried():
    config = json.loads(service_config([("demo.Reads", "Get"), ("demo.Reads", "List")]))
    (method_config,) = config["methodConfig"]
    assert method_config["name"] == [
        {"service": "demo.Reads", "method": "Get"},
        {"service": "demo.Reads", "method": "List"},
    ]
    assert method_config["retryPolicy"]["retryableStatusCodes"] == ["UNAVAILABLE"]
    assert method_config["retryPolicy"]["maxAttempts"] == 3
    assert "retryThrottling" in config


def test_nothing_is_retried_by_default():
    assert json.loads(service_config([])) == {}

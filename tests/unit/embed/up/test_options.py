from pathlib import Path

import pytest

from highwater.embed.up.options import (
    UpOptions,
    assignments_by_section,
    cluster_overrides,
    up_defaults,
    with_own,
)
from highwater.model.errors import ConfigError
from highwater.model.ids import INTERNAL_REPLICAS_MAX


def test_assignments_by_section():
    assert assignments_by_section(["gateway.idle_s_max=5", "partition.log.level=debug"]) == {
        "controller": {},
        "quota": {},
        "partition": {"log.level": "debug"},
        "gateway": {"idle_s_max": "5"},
    }


@pytest.mark.parametrize("text", ["port=1", "broker.port=1", ".port=1", "gateway.=1"])
def test_assignment_without_a_section(text):
    with pytest.raises(ConfigError):
        assignments_by_section([text])


def test_flags_that_apply_to_every_service():
    overrides = cluster_overrides(
        UpOptions(data_dir=Path("d"), host="::1", log_level="debug", etcd=("a:1", "b:2"))
    )
    assert {section: one["log.level"] for section, one in overrides.items()} == dict.fromkeys(
        ("controller", "quota", "partition", "gateway"), "debug"
    )
    assert overrides["controller"]["store"] == "etcd"
    assert overrides["controller"]["etcd.endpoints"] == ["a:1", "b:2"]
    assert overrides["gateway"]["host"] == "::1"


def test_defaults_that_follow_from_the_number_of_nodes():
    three = UpOptions(data_dir=Path("d"), nodes=3)
    secret = {"inner.secret_file": str(Path("d").absolute() / "inner.secret")}
    assert up_defaults("gateway", three) == secret | {
        "group_metadata_replication_factor": min(INTERNAL_REPLICAS_MAX, 3),
        "transaction_state_replication_factor": min(INTERNAL_REPLICAS_MAX, 3),
    }
    assert up_defaults("controller", three) == secret


def test_own_settings_cannot_be_assigned():
    with pytest.raises(ConfigError, match=r"gateway\.port follows from the flags"):
        with_own("gateway", {"port": "1"}, {"port": 2})


@pytest.mark.parametrize(
    ("flags", "supervised"),
    [
        ({}, False),
        ({"nodes": 2}, True),
        ({"gateways": 0}, True),
        ({"gateways": 1}, True),
        ({"separate": True}, True),
    ],
)
def test_when_services_are_processes(flags, supervised):
    assert UpOptions(data_dir=Path("d"), **flags).supervised is supervised


@pytest.mark.parametrize(
    ("flags", "combined"),
    [
        ({}, False),
        ({"nodes": 2}, True),
        ({"nodes": 2, "separate": True}, False),
        ({"nodes": 2, "gateways": 1}, False),
        ({"nodes": 1, "gateways": 0}, True),
    ],
)
def test_when_nodes_are_their_own_gateways(flags, combined):
    assert UpOptions(data_dir=Path("d"), **flags).combined is combined


def test_sections_of_other_commands():
    assert assignments_by_section(["a.x=1"], ("a", "b")) == {"a": {"x": "1"}, "b": {}}
    with pytest.raises(ConfigError, match="a section of a, b"):
        assignments_by_section(["gateway.x=1"], ("a", "b"))

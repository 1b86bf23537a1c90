"""Tools and admin clients that manage ACLs, client quotas and SCRAM users."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)
from kafka import KafkaAdminClient, errors
from kafka.admin import ACLFilter, ACLOperation, ACLPermissionType
from kafka.admin import ResourcePattern as KafkaPythonPattern
from kafka.admin import ResourceType as KafkaPythonResourceType

from tests.conformance.client import CLIENT_TIMEOUT_S
from tests.conformance.topics import unique_name
from tests.support.cluster import Cluster
from tests.support.java_tools import ACLS, CONFIGS, java_tool


@pytest.fixture
def admin(cluster: Cluster) -> AdminClient:
    return AdminClient({"bootstrap.servers": cluster.bootstrap})


@pytest.fixture
def python_admin(cluster: Cluster) -> Iterator[KafkaAdminClient]:
    client = KafkaAdminClient(bootstrap_servers=cluster.bootstrap)
    yield client
    client.close()


@pytest.mark.java
def test_acls_command_says_that_security_is_disabled(cluster: Cluster) -> None:
    broker = ("--bootstrap-server", cluster.bootstrap)
    listed = java_tool(ACLS, *broker, "--list", check=False)
    assert "SecurityDisabledException: No Authorizer is configured" in listed.stdout + listed.stderr
    new = ("--add", "--allow-principal", "User:a", "--operation", "Read", "--topic", "t")
    added = java_tool(ACLS, *broker, *new, check=False)
    assert "SecurityDisabledException: No Authorizer is configured" in added.stdout + added.stderr


def test_confluent_hears_that_security_is_disabled(admin: AdminClient) -> None:
    # Its describe_acls drops the error, also when Apache Kafka answers.
    wanted = AclBinding(
        ResourceType.TOPIC,
        "t",
        ResourcePatternType.LITERAL,
        "User:a",
        "*",
        AclOperation.READ,
        AclPermissionType.ALLOW,
    )
    (future,) = admin.create_acls([wanted]).values()
    with pytest.raises(KafkaException) as raised:
        future.result(CLIENT_TIMEOUT_S)
    assert raised.value.args[0].code() == KafkaError.SECURITY_DISABLED


def test_kafka_python_hears_that_security_is_disabled(python_admin: KafkaAdminClient) -> None:
    everything = ACLFilter(
        principal=None,
        host="*",
        operation=ACLOperation.ANY,
        permission_type=ACLPermissionType.ANY,
        resource_pattern=KafkaPythonPattern(KafkaPythonResourceType.TOPIC, "t"),
    )
    with pytest.raises(errors.SecurityDisabledError):
        python_admin.describe_acls(everything)


@pytest.mark.java
@pytest.mark.full
def test_configs_command_for_addresses(cluster: Cluster) -> None:
    config = ("--add-config", "connection_creation_rate=7")
    _change_and_describe(cluster, "ips", "192.0.2.9", "ip", config)


@pytest.mark.java
def test_configs_command_for_client_ids(cluster: Cluster) -> None:
    config = ("--add-config", "producer_byte_rate=1024,request_percentage=12.5")
    _change_and_describe(cluster, "clients", unique_name("app"), "client-id", config)


def _change_and_describe(
    cluster: Cluster, kind: str, name: str, called: str, config: tuple[str, str]
) -> None:
    """Adds the quotas of one entity, describes and deletes them."""
    broker = ("--bootstrap-server", cluster.bootstrap)
    named = (*broker, "--entity-type", kind, "--entity-name", name)
    java_tool(CONFIGS, *named, "--alter", *config)
    described = java_tool(CONFIGS, *named, "--describe").stdout
    assert f"Quota configs for {called} '{name}' are" in described
    wanted = dict(one.split("=") for one in config[1].split(","))
    for key, value in wanted.items():
        assert f"{key}={float(value)}" in described
    java_tool(CONFIGS, *named, "--alter", "--delete-config", ",".join(wanted))
    assert "Quota configs" not in java_tool(CONFIGS, *named, "--describe").stdout

"""Tools and admin clients that manage ACLs, client quotas and SCRAM users."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialDeletion,
    UserScramCredentialUpsertion,
)
from kafka import KafkaAdminClient, errors
from kafka.admin import ACLFilter, ACLOperation, ACLPermissionType
from kafka.admin import ResourcePattern as KafkaPythonPattern
from kafka.admin import ResourceType as KafkaPythonResourceType
from kafka.admin import ScramMechanism as KafkaPythonMechanism
from kafka.admin import UserScramCredentialDeletion as KafkaPythonDeletion
from kafka.admin import UserScramCredentialUpsertion as KafkaPythonUpsertion

from tests.conformance.client import CLIENT_TIMEOUT_S
from tests.conformance.topics import unique_name
from tests.support.cluster import Cluster
from tests.support.java_tools import ACLS, CONFIGS, java_tool
from tests.support.process import wait_until


@pytest.fixture
def admin(cluster: Cluster) -> AdminClient:
    return AdminClient({"bootstrap.servers": cluster.bootstrap})


@pytest.fixture
def python_admin(cluster: Cluster) -> Iterator[KafkaAdminClient]:
    client = KafkaAdminClient(bootstrap_servers=cluster.bootstrap)
    yield client
    client.close()


def _code(future: Any) -> int:
    """The error code of a call that fails."""
    with pytest.raises(KafkaException) as raised:
        future.result(CLIENT_TIMEOUT_S)
    code: int = raised.value.args[0].code()
    return code


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
    assert _code(future) == KafkaError.SECURITY_DISABLED


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


@pytest.mark.full
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


@pytest.mark.java
def test_configs_command_for_users(cluster: Cluster) -> None:
    user = unique_name("user")
    broker = ("--bootstrap-server", cluster.bootstrap)
    named = (*broker, "--entity-type", "users", "--entity-name", user)
    scram = "SCRAM-SHA-256=[iterations=8192,password=secret]"
    for new in ("consumer_byte_rate=2048", scram):
        java_tool(CONFIGS, *named, "--alter", "--add-config", new)
    described = java_tool(CONFIGS, *named, "--describe").stdout
    assert f"Quota configs for user-principal '{user}' are consumer_byte_rate=2048.0" in described
    told = f"SCRAM credential configs for user-principal '{user}' are SCRAM-SHA-256=iterations=8192"
    assert told in described
    for gone in ("consumer_byte_rate", "SCRAM-SHA-256"):
        java_tool(CONFIGS, *named, "--alter", "--delete-config", gone)
    assert "configs for user-principal" not in java_tool(CONFIGS, *named, "--describe").stdout


def test_confluent_manages_scram_users(admin: AdminClient) -> None:
    user, nobody = unique_name("user"), unique_name("nobody")
    sha_256, sha_512 = ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512

    def alter(change: Any) -> Any:
        (future,) = admin.alter_user_scram_credentials([change]).values()
        return future

    def known() -> dict[ScramMechanism, int]:
        future = admin.describe_user_scram_credentials([user])[user]
        infos = future.result(CLIENT_TIMEOUT_S).scram_credential_infos
        return {info.mechanism: info.iterations for info in infos}

    for mechanism, iterations in ((sha_256, 4_096), (sha_512, 10_000)):
        info = ScramCredentialInfo(mechanism, iterations)
        alter(UserScramCredentialUpsertion(user, info, b"secret")).result(CLIENT_TIMEOUT_S)
    wait_until(
        lambda: known() == {sha_256: 4_096, sha_512: 10_000},
        timeout_s=CLIENT_TIMEOUT_S,
        what="both credentials",
    )
    all_users = admin.describe_user_scram_credentials().result(CLIENT_TIMEOUT_S)
    assert user in all_users
    few = UserScramCredentialUpsertion(user, ScramCredentialInfo(sha_256, 100), b"secret")
    assert _code(alter(few)) == KafkaError.UNACCEPTABLE_CREDENTIAL
    for mechanism in (sha_256, sha_512):
        alter(UserScramCredentialDeletion(user, mechanism)).result(CLIENT_TIMEOUT_S)
    again = alter(UserScramCredentialDeletion(nobody, sha_256))
    assert _code(again) == KafkaError.RESOURCE_NOT_FOUND
    missing = admin.describe_user_scram_credentials([nobody])[nobody]
    assert _code(missing) == KafkaError.RESOURCE_NOT_FOUND


def test_kafka_python_manages_scram_users(python_admin: KafkaAdminClient) -> None:
    user, mechanism = unique_name("user"), KafkaPythonMechanism.SCRAM_SHA_512
    added = KafkaPythonUpsertion(user, mechanism, "secret", iterations=5_000)
    assert python_admin.alter_user_scram_credentials([added]) == {user: None}
    expected = {"error": None, "credential_infos": [{"mechanism": mechanism, "iterations": 5_000}]}
    wait_until(
        lambda: python_admin.describe_user_scram_credentials([user]) == {user: expected},
        timeout_s=CLIENT_TIMEOUT_S,
        what="the credential",
    )
    assert python_admin.describe_user_scram_credentials()[user] == expected
    removed = KafkaPythonDeletion(user, mechanism)
    assert python_admin.alter_user_scram_credentials([removed]) == {user: None}
    assert "does not exist" in python_admin.alter_user_scram_credentials([removed])[user]

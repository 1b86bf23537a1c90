"""A small blocking Kafka client on our own codec, for the command line: one connection.

API versions are fixed, and old enough for any Kafka broker since 2.5.
"""

import secrets
import socket
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Self

from highwater.embed.clients.client_properties import BrokerAccess, Login
from highwater.embed.clients.scram_client import ScramClient
from highwater.kafka.error_codes import error_code_of
from highwater.kafka.errors import CodecError
from highwater.kafka.framing import decode_response_header, encode_request_header, frame
from highwater.kafka.messages import (
    alter_partition_reassignments,
    create_topics,
    delete_topics,
    describe_cluster,
    describe_configs,
    list_partition_reassignments,
    metadata,
    sasl_authenticate,
    sasl_handshake,
)
from highwater.kafka.registry import request_codec
from highwater.model.errors import HighwaterError, UnreachableError, UsageError
from highwater.model.scram import PLAIN, ScramMechanism

TIMEOUT_S_DEFAULT: Final = 15.0
RESPONSE_BYTES_MAX: Final = 64 << 20
_RECEIVE_BYTES: Final = 1 << 20
_CLIENT_ID: Final = "highwater-cli"
_TOPIC_RESOURCE: Final = 2
_LENGTH: Final = struct.Struct(">i")

_METADATA_VERSION: Final = 9
_DESCRIBE_CLUSTER_VERSION: Final = 1
_CREATE_TOPICS_VERSION: Final = 5
_DELETE_TOPICS_VERSION: Final = 5
_DESCRIBE_CONFIGS_VERSION: Final = 3
_REASSIGNMENTS_VERSION: Final = 0
_SASL_VERSION: Final = 1
_NO_ACCESS: Final = BrokerAccess()


class BrokerError(HighwaterError):
    """The broker answered with an error code."""

    reason = "BROKER"

    def __init__(self, code: int, message: str | None, subject: str) -> None:
        """`message` is the broker's; without one, the code's message is used."""
        kafka_code = error_code_of(code)
        super().__init__(f"{subject}: {kafka_code.name}: {message or kafka_code.message}")
        self.code = kafka_code


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicConfig:
    """One config of a topic; `is_default` unless it is set on the topic."""

    name: str
    value: str | None
    is_default: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Reassignment:
    """A partition's reassignment: all its replicas, those to be added and those to be removed."""

    replicas: tuple[int, ...]
    adding: tuple[int, ...]
    removing: tuple[int, ...]


class KafkaClient:
    """One connection. Use as a context manager; every call has the constructor's time limit.

    Calls raise BrokerError for error codes and UnreachableError for failures of the connection.
    """

    def __init__(
        self,
        bootstrap: str,
        *,
        timeout_s: float = TIMEOUT_S_DEFAULT,
        access: BrokerAccess = _NO_ACCESS,
    ) -> None:
        """Connects, with TLS and a login if `access` has them. Raises UsageError for an invalid address."""
        host, port = parse_address(bootstrap)
        self._bootstrap = bootstrap
        self._timeout_s = timeout_s
        self._correlation_id = 0
        try:
            self._socket = socket.create_connection((host, port), timeout=timeout_s)
            if access.tls is not None:
                self._socket = access.tls.wrap_socket(self._socket, server_hostname=host)
        except OSError as error:
            raise UnreachableError(
                f"cannot connect to {bootstrap}: {error.strerror or error}"
            ) from None
        if access.login is not None:
            try:
                self._log_in(access.login)
            except HighwaterError:
                self._socket.close()
                raise

    def __enter__(self) -> Self:
        """Itself."""
        return self

    def __exit__(self, *_exception: object) -> None:
        """Closes the connection."""
        self._socket.close()

    def metadata(self, topics: list[str] | None = None) -> metadata.MetadataResponse:
        """Brokers, and the given topics or all; creates none. Error codes of topics do not raise."""
        asked = None
        if topics is not None:
            asked = [metadata.MetadataRequestMetadataRequestTopic(name=name) for name in topics]
        request = metadata.MetadataRequest(topics=asked, allow_auto_topic_creation=False)
        response = self._call(metadata.API_KEY, request, _METADATA_VERSION)
        assert isinstance(response, metadata.MetadataResponse)
        return response

    def live_brokers(self) -> list[tuple[str, int]]:
        """Addresses of the brokers that are not fenced."""
        request = describe_cluster.DescribeClusterRequest()
        response = self._call(describe_cluster.API_KEY, request, _DESCRIBE_CLUSTER_VERSION)
        _check(response.error_code, response.error_message, "the cluster")
        return [(broker.host, broker.port) for broker in response.brokers]

    def cluster_id(self) -> str:
        """The id of the cluster that answers."""
        request = describe_cluster.DescribeClusterRequest()
        response = self._call(describe_cluster.API_KEY, request, _DESCRIBE_CLUSTER_VERSION)
        _check(response.error_code, response.error_message, "the cluster")
        return str(response.cluster_id)

    def create_topic(
        self, name: str, *, partitions: int, replication_factor: int, configs: Mapping[str, str]
    ) -> int:
        """Creates a topic, -1 meaning the broker's default; returns its number of partitions."""
        topic = create_topics.CreateTopicsRequestCreatableTopic(
            name=name,
            num_partitions=partitions,
            replication_factor=replication_factor,
            configs=[
                create_topics.CreateTopicsRequestCreatableTopicConfig(name=key, value=value)
                for key, value in configs.items()
            ],
        )
        request = create_topics.CreateTopicsRequest(
            topics=[topic], timeout_ms=int(self._timeout_s * 1000)
        )
        result = self._call(create_topics.API_KEY, request, _CREATE_TOPICS_VERSION).topics[0]
        _check(result.error_code, result.error_message, f"topic {name}")
        return int(result.num_partitions)

    def delete_topic(self, name: str) -> None:
        """Deletes a topic."""
        request = delete_topics.DeleteTopicsRequest(
            topic_names=[name], timeout_ms=int(self._timeout_s * 1000)
        )
        result = self._call(delete_topics.API_KEY, request, _DELETE_TOPICS_VERSION).responses[0]
        _check(result.error_code, result.error_message, f"topic {name}")

    def topic_configs(self, name: str) -> list[TopicConfig]:
        """A topic's configs, in the broker's order."""
        resource = describe_configs.DescribeConfigsRequestDescribeConfigsResource(
            resource_type=_TOPIC_RESOURCE, resource_name=name, configuration_keys=None
        )
        request = describe_configs.DescribeConfigsRequest(resources=[resource])
        response = self._call(describe_configs.API_KEY, request, _DESCRIBE_CONFIGS_VERSION)
        result = response.results[0]
        _check(result.error_code, result.error_message, f"topic {name}")
        return [
            TopicConfig(
                name=one.name,
                value=one.value,
                is_default=one.config_source != _SOURCE_TOPIC,
            )
            for one in result.configs
        ]

    def reassign(self, name: str, replicas: Mapping[int, Sequence[int] | None]) -> None:
        """Reassigns partitions of a topic to these replicas; None cancels a reassignment."""
        messages = alter_partition_reassignments
        topic = messages.AlterPartitionReassignmentsRequestReassignableTopic(
            name,
            [
                messages.AlterPartitionReassignmentsRequestReassignablePartition(number, nodes)
                for number, nodes in replicas.items()
            ],
        )
        request = messages.AlterPartitionReassignmentsRequest(
            timeout_ms=int(self._timeout_s * 1000), topics=[topic]
        )
        response = self._call(messages.API_KEY, request, _REASSIGNMENTS_VERSION)
        for told in response.responses:
            for one in told.partitions:
                subject = f"partition {one.partition_index} of topic {told.name}"
                _check(one.error_code, one.error_message, subject)
        _check(response.error_code, response.error_message, f"topic {name}")

    def reassignments(self) -> dict[tuple[str, int], Reassignment]:
        """All reassignments, by topic and partition."""
        messages = list_partition_reassignments
        request = messages.ListPartitionReassignmentsRequest(int(self._timeout_s * 1000), None)
        response = self._call(messages.API_KEY, request, _REASSIGNMENTS_VERSION)
        _check(response.error_code, response.error_message, "reassignments")
        return {
            (topic.name, one.partition_index): Reassignment(
                replicas=tuple(one.replicas),
                adding=tuple(one.adding_replicas),
                removing=tuple(one.removing_replicas),
            )
            for topic in response.topics
            for one in topic.partitions
        }

    def _log_in(self, login: Login) -> None:
        request = sasl_handshake.SaslHandshakeRequest(mechanism=login.mechanism)
        response = self._call(sasl_handshake.API_KEY, request, _SASL_VERSION)
        offered = ", ".join(response.mechanisms)
        _check(response.error_code, f"the broker offers {offered}", f"login by {login.mechanism}")
        if login.mechanism == PLAIN:
            self._say(login, f"\0{login.user}\0{login.password}".encode())
            return
        mechanism = next(one for one in ScramMechanism if one.mechanism_name == login.mechanism)
        scram = ScramClient(mechanism, login.user, login.password, nonce=secrets.token_urlsafe(24))
        scram.check(self._say(login, scram.final(self._say(login, scram.first()))))

    def _say(self, login: Login, message: bytes) -> bytes:
        request = sasl_authenticate.SaslAuthenticateRequest(auth_bytes=message)
        response = self._call(sasl_authenticate.API_KEY, request, _SASL_VERSION)
        _check(response.error_code, response.error_message, f"login of {login.user}")
        return bytes(response.auth_bytes)

    def _call(self, api_key: int, request: Any, version: int) -> Any:
        codec = request_codec(api_key)
        self._correlation_id += 1
        header = encode_request_header(api_key, version, self._correlation_id, _CLIENT_ID)
        try:
            self._socket.sendall(frame(header, codec.encode_request(request, version)))
            content = self._receive_frame()
            correlation_id, pos = decode_response_header(content, 0, api_key, version)
            if correlation_id != self._correlation_id:
                raise UnreachableError(f"{self._bootstrap} answers another request than ours")
            return codec.decode_response(content, pos, version)
        except TimeoutError:
            raise UnreachableError(
                f"{self._bootstrap} does not answer within {self._timeout_s:g} s"
            ) from None
        except OSError as error:
            raise UnreachableError(f"{self._bootstrap}: {error.strerror or error}") from None
        except CodecError as error:
            raise UnreachableError(
                f"{self._bootstrap} does not speak Kafka's protocol: {error}"
            ) from None

    def _receive_frame(self) -> memoryview:
        (length,) = _LENGTH.unpack(self._receive(_LENGTH.size))
        if not 0 <= length <= RESPONSE_BYTES_MAX:
            raise UnreachableError(f"{self._bootstrap} does not speak Kafka's protocol")
        return memoryview(self._receive(length))

    def _receive(self, size: int) -> bytes:
        data = bytearray()
        while len(data) < size:
            piece = self._socket.recv(min(size - len(data), _RECEIVE_BYTES))
            if not piece:
                raise UnreachableError(f"{self._bootstrap} closed the connection")
            data += piece
        return bytes(data)


_SOURCE_TOPIC: Final = 1


def parse_address(text: str) -> tuple[str, int]:
    """host:port, the first of several separated by commas. Raises UsageError."""
    host, _, port = text.partition(",")[0].strip().rpartition(":")
    if not host or not port.isdecimal() or not 0 < int(port) <= 65535:
        raise UsageError(f"expected HOST:PORT, got {text!r}")
    return host.removeprefix("[").removesuffix("]"), int(port)


def _check(code: int, message: str | None, subject: str) -> None:
    if code:
        raise BrokerError(code, message, subject)

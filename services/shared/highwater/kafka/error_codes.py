"""Kafka's error codes, with their retriability and a message for people.

Numbers and retriability are those of Apache Kafka's `Errors` enum; the messages are our own.
"""

import enum
from typing import Self


class ErrorCode(enum.IntEnum):
    """A Kafka error code; the integer value is what goes on the wire as int16."""

    retriable: bool
    message: str

    def __new__(cls, value: int, retriable: bool = False, message: str = "") -> Self:
        """Make the member for one wire value, with its retriability and its message."""
        code = int.__new__(cls, value)
        code._value_ = value
        code.retriable = retriable
        code.message = message
        return code

    UNKNOWN_SERVER_ERROR = (
        -1,
        False,
        "The broker failed in a way that has no error code of its own.",
    )
    NONE = 0, False, "No error."
    OFFSET_OUT_OF_RANGE = (
        1,
        False,
        "The offset is outside the range of offsets that the partition holds.",
    )
    CORRUPT_MESSAGE = 2, True, "The record batch fails its checksum or is otherwise malformed."
    UNKNOWN_TOPIC_OR_PARTITION = 3, True, "This broker does not host the topic or partition."
    INVALID_FETCH_SIZE = 4, False, "The fetch size is not valid."
    LEADER_NOT_AVAILABLE = 5, True, "The partition has no leader at the moment."
    NOT_LEADER_OR_FOLLOWER = (
        6,
        True,
        "This broker is not the leader, or not a replica, of the partition.",
    )
    REQUEST_TIMED_OUT = 7, True, "The request did not finish within its timeout."
    BROKER_NOT_AVAILABLE = 8, False, "The broker is not available."
    REPLICA_NOT_AVAILABLE = 9, True, "The replica is not available on this broker."
    MESSAGE_TOO_LARGE = 10, False, "The record batch is larger than the topic or broker accepts."
    STALE_CONTROLLER_EPOCH = (
        11,
        False,
        "The request carries an older controller epoch than the broker knows.",
    )
    OFFSET_METADATA_TOO_LARGE = (
        12,
        False,
        "The metadata string of the committed offset is too long.",
    )
    NETWORK_EXCEPTION = 13, True, "The connection ended before a response came."
    COORDINATOR_LOAD_IN_PROGRESS = 14, True, "The coordinator is still loading its state."
    COORDINATOR_NOT_AVAILABLE = 15, True, "There is no coordinator at the moment."
    NOT_COORDINATOR = 16, True, "This broker is not the coordinator of the group or transaction."
    INVALID_TOPIC_EXCEPTION = (
        17,
        False,
        "The topic name is not valid, or the topic may not be used this way.",
    )
    RECORD_LIST_TOO_LARGE = 18, False, "The record batch is larger than a log segment."
    NOT_ENOUGH_REPLICAS = 19, True, "Fewer replicas are in sync than min.insync.replicas asks for."
    NOT_ENOUGH_REPLICAS_AFTER_APPEND = (
        20,
        True,
        "The records were appended, but too few replicas were in sync.",
    )
    INVALID_REQUIRED_ACKS = 21, False, "acks is none of -1, 0 and 1."
    ILLEGAL_GENERATION = 22, False, "The generation is not the group's current one."
    INCONSISTENT_GROUP_PROTOCOL = (
        23,
        False,
        "The member shares no protocol, or not the protocol type, with the group.",
    )
    INVALID_GROUP_ID = 24, False, "The group id is not valid."
    UNKNOWN_MEMBER_ID = 25, False, "The group does not know this member."
    INVALID_SESSION_TIMEOUT = (
        26,
        False,
        "The session timeout is outside the limits that the broker sets.",
    )
    REBALANCE_IN_PROGRESS = 27, False, "The group is rebalancing, so the member has to rejoin."
    INVALID_COMMIT_OFFSET_SIZE = 28, False, "The offset to commit is too large to be stored."
    TOPIC_AUTHORIZATION_FAILED = 29, False, "The client is not authorized for the topic."
    GROUP_AUTHORIZATION_FAILED = 30, False, "The client is not authorized for the group."
    CLUSTER_AUTHORIZATION_FAILED = (
        31,
        False,
        "The client is not authorized for this cluster operation.",
    )
    INVALID_TIMESTAMP = 32, False, "A record's timestamp is outside the accepted range."
    UNSUPPORTED_SASL_MECHANISM = 33, False, "The broker does not offer this SASL mechanism."
    ILLEGAL_SASL_STATE = 34, False, "The request is not allowed in this state of the SASL exchange."
    UNSUPPORTED_VERSION = 35, False, "The broker does not support this version of the API."
    TOPIC_ALREADY_EXISTS = 36, False, "A topic of this name exists already."
    INVALID_PARTITIONS = 37, False, "The number of partitions is not valid."
    INVALID_REPLICATION_FACTOR = (
        38,
        False,
        "The replication factor is below 1 or above the number of brokers.",
    )
    INVALID_REPLICA_ASSIGNMENT = 39, False, "The replica assignment is not valid."
    INVALID_CONFIG = 40, False, "A configuration value is not valid."
    NOT_CONTROLLER = 41, True, "This broker is not the active controller."
    INVALID_REQUEST = 42, False, "The request contradicts itself or the protocol."
    UNSUPPORTED_FOR_MESSAGE_FORMAT = (
        43,
        False,
        "The partition's record format does not support the operation.",
    )
    POLICY_VIOLATION = 44, False, "The request breaks a policy of the cluster."
    OUT_OF_ORDER_SEQUENCE_NUMBER = (
        45,
        False,
        "The batch's sequence number does not follow the producer's last one.",
    )
    DUPLICATE_SEQUENCE_NUMBER = (
        46,
        False,
        "The broker has already appended a batch with this sequence number.",
    )
    INVALID_PRODUCER_EPOCH = 47, False, "The producer epoch is older than the current one."
    INVALID_TXN_STATE = 48, False, "The transaction is not in a state that allows the request."
    INVALID_PRODUCER_ID_MAPPING = (
        49,
        False,
        "The producer id does not belong to this transactional id.",
    )
    INVALID_TRANSACTION_TIMEOUT = (
        50,
        False,
        "The transaction timeout is above the broker's maximum.",
    )
    CONCURRENT_TRANSACTIONS = (
        51,
        True,
        "An earlier transaction of this producer is still being completed.",
    )
    TRANSACTION_COORDINATOR_FENCED = 52, False, "A newer transaction coordinator has taken over."
    TRANSACTIONAL_ID_AUTHORIZATION_FAILED = (
        53,
        False,
        "The client is not authorized for the transactional id.",
    )
    SECURITY_DISABLED = 54, False, "The cluster runs without authorization."
    OPERATION_NOT_ATTEMPTED = (
        55,
        False,
        "The operation was not tried because another part of the request failed.",
    )
    KAFKA_STORAGE_ERROR = 56, True, "The broker could not reach its log on disk."
    LOG_DIR_NOT_FOUND = 57, False, "The broker has no such log directory."
    SASL_AUTHENTICATION_FAILED = 58, False, "SASL authentication failed."
    UNKNOWN_PRODUCER_ID = 59, False, "The broker holds no state of this producer id."
    REASSIGNMENT_IN_PROGRESS = 60, False, "The partition's replicas are being reassigned."
    DELEGATION_TOKEN_AUTH_DISABLED = 61, False, "Delegation tokens are disabled."
    DELEGATION_TOKEN_NOT_FOUND = 62, False, "There is no such delegation token."
    DELEGATION_TOKEN_OWNER_MISMATCH = (
        63,
        False,
        "The principal neither owns nor may renew the token.",
    )
    DELEGATION_TOKEN_REQUEST_NOT_ALLOWED = (
        64,
        False,
        "Delegation tokens may not be requested over this connection.",
    )
    DELEGATION_TOKEN_AUTHORIZATION_FAILED = (
        65,
        False,
        "The client is not authorized for the delegation token.",
    )
    DELEGATION_TOKEN_EXPIRED = 66, False, "The delegation token has expired."
    INVALID_PRINCIPAL_TYPE = 67, False, "The principal type is not supported."
    NON_EMPTY_GROUP = 68, False, "The group still has members."
    GROUP_ID_NOT_FOUND = 69, False, "There is no such group."
    FETCH_SESSION_ID_NOT_FOUND = 70, True, "The broker holds no such fetch session."
    INVALID_FETCH_SESSION_EPOCH = 71, True, "The fetch session epoch is not the expected one."
    LISTENER_NOT_FOUND = (
        72,
        True,
        "The leader has no listener that matches the one of this request.",
    )
    TOPIC_DELETION_DISABLED = 73, False, "Deleting topics is disabled."
    FENCED_LEADER_EPOCH = 74, True, "The request's leader epoch is older than the broker's."
    UNKNOWN_LEADER_EPOCH = 75, True, "The request's leader epoch is newer than the broker's."
    UNSUPPORTED_COMPRESSION_TYPE = (
        76,
        False,
        "This version of the API does not allow the batch's compression.",
    )
    STALE_BROKER_EPOCH = 77, False, "The broker epoch has changed."
    OFFSET_NOT_AVAILABLE = 78, True, "The new leader does not yet know the high watermark."
    MEMBER_ID_REQUIRED = (
        79,
        False,
        "The member has to join again with the member id in this response.",
    )
    PREFERRED_LEADER_NOT_AVAILABLE = 80, True, "The preferred leader is not available."
    GROUP_MAX_SIZE_REACHED = 81, False, "The group has as many members as it may have."
    FENCED_INSTANCE_ID = 82, False, "Another member has registered with the same group instance id."
    ELIGIBLE_LEADERS_NOT_AVAILABLE = 83, True, "No replica that may become leader is available."
    ELECTION_NOT_NEEDED = 84, True, "The partition already has the leader that was asked for."
    NO_REASSIGNMENT_IN_PROGRESS = 85, False, "The partition's replicas are not being reassigned."
    GROUP_SUBSCRIBED_TO_TOPIC = (
        86,
        False,
        "The group is subscribed to the topic, so its offsets stay.",
    )
    INVALID_RECORD = 87, False, "A record breaks a rule of the broker or of the topic."
    UNSTABLE_OFFSET_COMMIT = (
        88,
        True,
        "A transaction that committed offsets of this partition is still open.",
    )
    THROTTLING_QUOTA_EXCEEDED = 89, True, "The quota is used up for now."
    PRODUCER_FENCED = 90, False, "A newer producer uses the same transactional id."
    RESOURCE_NOT_FOUND = 91, False, "The request names something that does not exist."
    DUPLICATE_RESOURCE = 92, False, "The request names the same thing twice."
    UNACCEPTABLE_CREDENTIAL = 93, False, "The credential does not meet the requirements."
    INCONSISTENT_VOTER_SET = (
        94,
        False,
        "The sender or receiver is not among the quorum's voters as expected.",
    )
    INVALID_UPDATE_VERSION = 95, False, "The update's version is not valid."
    FEATURE_UPDATE_FAILED = 96, False, "The finalized features could not be updated."
    PRINCIPAL_DESERIALIZATION_FAILURE = 97, False, "The forwarded principal could not be read."
    SNAPSHOT_NOT_FOUND = 98, False, "There is no such snapshot."
    POSITION_OUT_OF_RANGE = 99, False, "The position is outside the snapshot."
    UNKNOWN_TOPIC_ID = 100, True, "This broker does not know the topic id."
    DUPLICATE_BROKER_REGISTRATION = 101, False, "The broker id is in use by another live broker."
    BROKER_ID_NOT_REGISTERED = 102, False, "The broker id has not been registered."
    INCONSISTENT_TOPIC_ID = 103, True, "The topic id is not the one in the log."
    INCONSISTENT_CLUSTER_ID = 104, False, "The cluster id is not this cluster's."
    TRANSACTIONAL_ID_NOT_FOUND = 105, False, "There is no such transactional id."
    FETCH_SESSION_TOPIC_ID_ERROR = 106, True, "The fetch session mixes topic names and topic ids."
    INELIGIBLE_REPLICA = 107, False, "The replica may not join the in-sync replicas."
    NEW_LEADER_ELECTED = 108, False, "The change to the partition elected a new leader."
    OFFSET_MOVED_TO_TIERED_STORAGE = 109, False, "The offset now lies in tiered storage."
    FENCED_MEMBER_EPOCH = 110, False, "The member epoch is fenced, so the member has to rejoin."
    UNRELEASED_INSTANCE_ID = 111, False, "Another member of the group still holds the instance id."
    UNSUPPORTED_ASSIGNOR = 112, False, "The group does not support this assignor."
    STALE_MEMBER_EPOCH = (
        113,
        False,
        "The member epoch is stale, so the member has to learn the current one.",
    )
    MISMATCHED_ENDPOINT_TYPE = 114, False, "The request went to the wrong kind of endpoint."
    UNSUPPORTED_ENDPOINT_TYPE = 115, False, "This kind of endpoint is not supported."
    UNKNOWN_CONTROLLER_ID = 116, False, "There is no controller of this id."
    UNKNOWN_SUBSCRIPTION_ID = (
        117,
        False,
        "The telemetry subscription is not the client's current one.",
    )
    TELEMETRY_TOO_LARGE = 118, False, "The telemetry payload is too large."
    INVALID_REGISTRATION = 119, False, "The controller refused the broker's registration."
    TRANSACTION_ABORTABLE = (
        120,
        False,
        "The transaction has failed and has to be aborted by the client.",
    )
    INVALID_RECORD_STATE = (
        121,
        False,
        "The record's delivery state does not allow the acknowledgement.",
    )
    SHARE_SESSION_NOT_FOUND = 122, True, "The broker holds no such share session."
    INVALID_SHARE_SESSION_EPOCH = 123, True, "The share session epoch is not the expected one."
    FENCED_STATE_EPOCH = 124, False, "The share coordinator refused an old state epoch."
    INVALID_VOTER_KEY = 125, False, "The voter key is not the receiver's."
    DUPLICATE_VOTER = 126, False, "The voter is already in the quorum."
    VOTER_NOT_FOUND = 127, False, "The quorum has no such voter."
    INVALID_REGULAR_EXPRESSION = 128, False, "The regular expression is not valid."
    REBOOTSTRAP_REQUIRED = (
        129,
        False,
        "The client's metadata is too old, so it has to bootstrap again.",
    )
    STREAMS_INVALID_TOPOLOGY = 130, False, "The streams topology is not valid."
    STREAMS_INVALID_TOPOLOGY_EPOCH = 131, False, "The streams topology epoch is not valid."
    STREAMS_TOPOLOGY_FENCED = 132, False, "The streams topology epoch is outdated."
    SHARE_SESSION_LIMIT_REACHED = 133, True, "The broker holds as many share sessions as it may."


def error_code_of(value: int) -> ErrorCode:
    """Return the error code of a wire value, UNKNOWN_SERVER_ERROR for one that is not known.

    Newer brokers may send codes that are not in this table; Kafka's clients treat them alike.
    """
    return _BY_VALUE.get(value, ErrorCode.UNKNOWN_SERVER_ERROR)


_BY_VALUE = {int(code): code for code in ErrorCode}

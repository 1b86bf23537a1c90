"""Authorized operations as bit fields (KIP-430).

Without an authorizer, clients may perform all operations that a resource supports: the sets are
those of Kafka 4's `AclEntry.supportedOperations`, with the bit numbers of its `AclOperation`.
"""

from enum import IntEnum
from typing import Final


class AclOperation(IntEnum):
    """What an ACL can allow; values are bit numbers."""

    READ = 3
    WRITE = 4
    CREATE = 5
    DELETE = 6
    ALTER = 7
    DESCRIBE = 8
    CLUSTER_ACTION = 9
    DESCRIBE_CONFIGS = 10
    ALTER_CONFIGS = 11
    IDEMPOTENT_WRITE = 12
    CREATE_TOKENS = 13


def _bits(*operations: AclOperation) -> int:
    return sum(1 << operation for operation in operations)


NOT_ASKED: Final = -(2**31)
"""The value when the client did not ask for operations."""

TOPIC_OPERATIONS: Final = _bits(
    AclOperation.READ,
    AclOperation.WRITE,
    AclOperation.CREATE,
    AclOperation.DELETE,
    AclOperation.ALTER,
    AclOperation.DESCRIBE,
    AclOperation.DESCRIBE_CONFIGS,
    AclOperation.ALTER_CONFIGS,
)

GROUP_OPERATIONS: Final = _bits(
    AclOperation.READ,
    AclOperation.DELETE,
    AclOperation.DESCRIBE,
    AclOperation.DESCRIBE_CONFIGS,
    AclOperation.ALTER_CONFIGS,
)

CLUSTER_OPERATIONS: Final = _bits(
    AclOperation.CREATE,
    AclOperation.ALTER,
    AclOperation.DESCRIBE,
    AclOperation.CLUSTER_ACTION,
    AclOperation.DESCRIBE_CONFIGS,
    AclOperation.ALTER_CONFIGS,
    AclOperation.IDEMPOTENT_WRITE,
)

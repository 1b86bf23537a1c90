"""Instances for people, as rows of tables, and for programs, as JSON."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, Final

from highwater.embed.clients.instances import KnownInstance
from highwater.model.ids import DEFAULT_INSTANCE
from highwater.model.instances import InstanceListener, InstanceState

LIMITS: Final = {
    "produce_bytes_per_second": ("produce", "B/s"),
    "consume_bytes_per_second": ("consume", "B/s"),
    "storage_bytes": ("storage", "B"),
    "message_bytes_max": ("a message", "B"),
    "connections_max": ("connections at each gateway", ""),
    "partitions_max": ("partitions", ""),
    "groups_max": ("groups", ""),
}
"""Field -> what it limits, and its unit."""

COLUMNS: Final = ("instance", "state", "ports", "clients from", "topics", "partitions", "users")


def list_row(known: KnownInstance) -> tuple[str, ...]:
    """One instance among others, under COLUMNS."""
    state = known.state
    limit = state.partitions_max
    return (
        state.instance,
        _life(state),
        _ports(state),
        _networks(state.allowed_networks),
        str(known.topics),
        str(known.partitions) if limit is None else f"{known.partitions} of {limit}",
        str(known.users),
    )


def detail_rows(known: KnownInstance) -> list[tuple[str, str]]:
    """Everything of one instance, as names and values."""
    state = known.state
    return [
        ("state", _life(state)),
        ("ports", _ports(state)),
        ("clients from", _networks(state.allowed_networks)),
        *_access_rows(state),
        ("deletion", "refused" if state.delete_protection else "allowed"),
        ("topics", str(known.topics)),
        ("partitions", str(known.partitions)),
        ("users", str(known.users)),
        ("ACLs", str(known.acls)),
        *(
            (f"limit of {what}", _amount(getattr(state, field), unit))
            for field, (what, unit) in LIMITS.items()
        ),
    ]


def as_json(known: KnownInstance) -> dict[str, Any]:
    """One instance for programs: null is unlimited, from anywhere, no audience, or as gateways say."""
    state = known.state
    return {
        "instance": state.instance,
        "state": "deleted" if state.is_deleted else "active",
        "purge_at": None if state.purge_at_ms is None else moment(state.purge_at_ms),
        "listeners": [
            {
                "listener": each.listener,
                "port": each.port,
                "advertised_host": each.advertised_host or None,
                "advertised_port": each.advertised_port or None,
            }
            for each in state.listeners
        ],
        "allowed_networks": (
            None if state.allowed_networks is None else list(state.allowed_networks)
        ),
        "token_audience": state.token_audience or None,
        "certificates": state.certificates,
        "open_if_no_acl": state.open_if_no_acl,
        "limits": {field: getattr(state, field) for field in LIMITS},
        "delete_protection": state.delete_protection,
        "topics": known.topics,
        "partitions": known.partitions,
        "users": known.users,
        "acls": known.acls,
    }


def moment(at_ms: int) -> str:
    """A time in UTC, to the second, as ISO 8601 has it."""
    at = datetime.fromtimestamp(at_ms / 1000, UTC)
    return at.isoformat(timespec="seconds").replace("+00:00", "Z")


def _life(state: InstanceState) -> str:
    if state.purge_at_ms is None:
        return "active"
    return f"deleted, purged {moment(state.purge_at_ms)}"


def _ports(state: InstanceState) -> str:
    if state.instance == DEFAULT_INSTANCE:
        return "the gateways' own"
    return ", ".join(_port(each) for each in state.listeners) or "none"


def _port(block: InstanceListener) -> str:
    """For example `19000 on default, told as kafka.example.com:9092`."""
    text = f"{block.port} on {block.listener}"
    if not block.advertised_host and not block.advertised_port:
        return text
    port = block.advertised_port or block.port
    return f"{text}, told as {block.advertised_host or 'the host'}:{port}"


def _networks(networks: Sequence[str] | None) -> str:
    if networks is None:
        return "anywhere"
    return ", ".join(networks) or "nowhere"


_OPEN: Final = {None: "as the gateways say", True: "everybody", False: "nobody"}


def _access_rows(state: InstanceState) -> list[tuple[str, str]]:
    """Whom its clients are, and who may use what nothing is said of."""
    opened = ("without an ACL", _OPEN[state.open_if_no_acl])
    if state.instance == DEFAULT_INSTANCE:  # It goes by the gateways' settings.
        return [opened]
    return [
        ("tokens", f"of audience {state.token_audience}" if state.token_audience else "refused"),
        ("certificates", "name users" if state.certificates else "name nobody"),
        opened,
    ]


def _amount(limit: int | None, unit: str) -> str:
    return "unlimited" if limit is None else f"{limit} {unit}".rstrip()

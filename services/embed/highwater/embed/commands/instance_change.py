"""What the options of `highwater instance create` and `set` make of an instance."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from highwater.embed.commands.quantities import bytes_of, count_of
from highwater.model.errors import UsageError
from highwater.model.instances import InstanceListener, InstanceState
from highwater.model.listener_names import DEFAULT_LISTENER

_BYTES: Final = {
    "produce_bytes_per_second": "--produce-bytes-per-second",
    "consume_bytes_per_second": "--consume-bytes-per-second",
    "storage_bytes": "--storage-bytes",
}
_COUNTS: Final = {
    "connections_max": "--connections",
    "partitions_max": "--partitions",
    "groups_max": "--groups",
}
_MESSAGE_BYTES: Final = "--message-bytes"
_INT_MAX: Final = 2**31 - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class PortOptions:
    """A block of ports on one listener; None keeps what is there."""

    listener: str = DEFAULT_LISTENER
    port: int | None = None
    advertised_host: str | None = None
    advertised_port: int | None = None
    removed: Sequence[str] = ()
    """Listeners whose blocks go."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AllowOptions:
    """From where clients may come; at most one of them is given."""

    networks: Sequence[str] = ()
    nobody: bool = False
    all: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class AccessOptions:
    """Whom tokens and certificates name, and who may do what nothing is said of; None keeps what is there."""

    token_audience: str | None = None
    """`none`: no token opens its ports."""
    certificates: bool | None = None
    open: bool | None = None
    open_as_gateway: bool = False
    """True: open or closed as the gateways' setting says."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InstanceChange:
    """All options of one command; a limit is its text, None if it is not named."""

    ports: PortOptions = PortOptions()
    allow: AllowOptions = AllowOptions()
    limits: Mapping[str, str | None] = field(default_factory=dict)
    """By the field of InstanceState."""
    delete_protection: bool | None = None
    access: AccessOptions = AccessOptions()

    def of(self, present: InstanceState) -> InstanceState:
        """The instance with these changes; what is not named stays. Raises UsageError."""
        changed = replace(present, listeners=_listeners(present.listeners, self.ports))
        changed = replace(changed, allowed_networks=_allowed(present, self.allow))
        changed = replace(changed, **_limits(self.limits))
        if self.delete_protection is not None:
            changed = replace(changed, delete_protection=self.delete_protection)
        return _with_access(changed, self.access)


def _listeners(
    present: Sequence[InstanceListener], options: PortOptions
) -> tuple[InstanceListener, ...]:
    blocks = {each.listener: each for each in present}
    for name in options.removed:
        if blocks.pop(name, None) is None:
            raise UsageError(f"--remove-listener: the instance has no ports on listener {name!r}")
    given = (options.port, options.advertised_host, options.advertised_port)
    if all(value is None for value in given):
        if options.listener != DEFAULT_LISTENER:
            raise UsageError(f"--listener {options.listener}: with which --port?")
        return tuple(blocks.values())
    block = blocks.get(options.listener)
    if block is None:
        if options.port is None:
            raise UsageError(f"listener {options.listener!r} has no ports yet: with which --port?")
        block = InstanceListener(port=options.port, listener=options.listener)
    values = zip(("port", "advertised_host", "advertised_port"), given, strict=True)
    changes: dict[str, Any] = {name: value for name, value in values if value is not None}
    blocks[options.listener] = replace(block, **changes)
    return tuple(blocks.values())


def _allowed(present: InstanceState, options: AllowOptions) -> tuple[str, ...] | None:
    if sum((bool(options.networks), options.nobody, options.all)) > 1:
        raise UsageError("one of --allow, --allow-nobody and --allow-all")
    if options.networks:
        return tuple(options.networks)
    if options.nobody:
        return ()
    return None if options.all else present.allowed_networks


def _with_access(present: InstanceState, options: AccessOptions) -> InstanceState:
    changes: dict[str, Any] = {}
    if options.token_audience is not None:
        audience = options.token_audience
        changes["token_audience"] = "" if audience == "none" else audience
    if options.certificates is not None:
        changes["certificates"] = options.certificates
    if options.open is not None and options.open_as_gateway:
        raise UsageError("one of --open, --closed and --open-as-gateway")
    if options.open is not None or options.open_as_gateway:
        changes["open_if_no_acl"] = options.open
    return replace(present, **changes)


def _limits(texts: Mapping[str, str | None]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, text in texts.items():
        if text is None:
            continue
        if name in _BYTES:
            found[name] = bytes_of(_BYTES[name], text)
        elif name in _COUNTS:
            found[name] = count_of(_COUNTS[name], text)
        else:
            found[name] = bytes_of(_MESSAGE_BYTES, text)
            if (found[name] or 0) > _INT_MAX:
                raise UsageError(f"{_MESSAGE_BYTES}: a message has at most {_INT_MAX} bytes")
    return found

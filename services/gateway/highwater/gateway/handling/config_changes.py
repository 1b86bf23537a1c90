"""Config changes of AlterConfigs and IncrementalAlterConfigs: checks them, asks the controller.

The gateway refuses invalid changes with Kafka's codes; the controller checks again, against the
newest image, and stores the others.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from highwater.api.controller.v1 import controller_service_pb2 as pb
from highwater.gateway.handling.admin_calls import await_visible, call_timeout_s, code_by_name
from highwater.gateway.handling.authorization import config_denial
from highwater.gateway.handling.broker_loggers import LoggersError, alter_loggers, node_of_loggers
from highwater.gateway.handling.context import RequestContext
from highwater.kafka.error_codes import ErrorCode
from highwater.model.acl_operations import AclOperation
from highwater.model.cluster import TopicState
from highwater.model.config_type import ConfigResourceType
from highwater.model.dynamic_config import dynamic_config_error, dynamic_name_error
from highwater.model.ids import NO_NODE, NodeId
from highwater.model.topic_config import InvalidTopicConfigError, validate_change


class ResourceKey(NamedTuple):
    """The resource of a change; type and name as the client gave them."""

    type: int
    name: str


class Refused(NamedTuple):
    """The error of a resource whose change is refused."""

    error_code: int
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """A resource that can be changed: a topic, else a client metrics subscription or a group, which
    may not exist yet, else the loggers of a broker, else brokers; node -1 is all of them.
    """

    topic: TopicState | None = None
    client_metrics: str | None = None
    """The subscription's name."""
    group: str | None = None
    """The group's id."""
    loggers_of: NodeId | None = None
    node: NodeId = NO_NODE


@dataclass(frozen=True, slots=True, kw_only=True)
class Assignments:
    """The changes of a resource's configs."""

    set: Mapping[str, str] = field(default_factory=dict)
    deleted: Sequence[str] = ()
    replace_all: bool = False
    appended: Mapping[str, str] = field(default_factory=dict)
    """Items to append to lists; the controller computes the values and refuses invalid ones."""
    subtracted: Mapping[str, str] = field(default_factory=dict)
    """Items to remove from lists."""


Plan = Callable[[Target], Assignments | Refused]
"""Makes the changes that a request wants of one resource, once the resource is found."""


async def alter_resources(
    context: RequestContext, plans: Sequence[tuple[ResourceKey, Plan]], *, validate_only: bool
) -> list[Refused | None]:
    """Outcomes in the order of `plans`; None is success. A refusal does not affect the others."""
    twice = {key for key, times in Counter(key for key, _ in plans).items() if times > 1}
    outcomes: list[Refused | None] = [None] * len(plans)
    changes: list[tuple[int, pb.ConfigChange]] = []
    for index, (key, plan) in enumerate(plans):
        if key in twice:
            why = "Each resource must appear at most once."
            outcomes[index] = Refused(ErrorCode.INVALID_REQUEST, why)
            continue
        found = _checked(context, key, plan)
        if isinstance(found, Refused):
            outcomes[index] = found
            continue
        target, wanted = found
        if target.loggers_of is not None:
            outcomes[index] = await _alter_loggers(
                context, target.loggers_of, wanted, validate_only=validate_only
            )
        else:
            changes.append((index, _change(target, wanted)))
    if changes:
        response = await context.backend.controller.alter_configs(
            pb.AlterConfigsRequest(
                instance=context.peer.instance,
                changes=[change for _, change in changes],
                validate_only=validate_only,
            ),
            timeout_s=call_timeout_s(context),
        )
        for (index, _), error in zip(changes, response.errors, strict=True):
            if error.error_code:
                message = error.message or ErrorCode(error.error_code).message
                outcomes[index] = Refused(code_by_name(error.error_code), message)
        if not validate_only:
            await await_visible(context, response.revision)
    return outcomes


def check_names(configs: Iterable[tuple[str, bool]]) -> Refused | None:
    """Refuses names that occur twice and names without a value, in Kafka's words.

    `configs` are pairs of a name and whether it lacks a value.
    """
    names: set[str] = set()
    for name, lacks_value in configs:
        if name in names:
            return Refused(ErrorCode.INVALID_REQUEST, f"Error due to duplicate config keys: {name}")
        if lacks_value:
            return Refused(ErrorCode.INVALID_REQUEST, f"Null value not supported for: {name}")
        names.add(name)
    return None


def _checked(
    context: RequestContext, key: ResourceKey, plan: Plan
) -> tuple[Target, Assignments] | Refused:
    denial = config_denial(context, AclOperation.ALTER_CONFIGS, key.type, key.name)
    if denial:
        return Refused(denial, denial.message)
    target = _target(context, key)
    if isinstance(target, Refused):
        return target
    wanted = plan(target)
    if isinstance(wanted, Refused):
        return wanted
    return _refusal(target, wanted) or (target, wanted)


async def _alter_loggers(
    context: RequestContext, node: NodeId, wanted: Assignments, *, validate_only: bool
) -> Refused | None:
    assert not wanted.replace_all
    assert not wanted.appended
    assert not wanted.subtracted
    levels: dict[str, str | None] = {**wanted.set, **dict.fromkeys(wanted.deleted)}
    error = await alter_loggers(context, node, levels, validate_only=validate_only)
    return None if error is None else Refused(*error)


def _change(target: Target, wanted: Assignments) -> pb.ConfigChange:
    change = pb.ConfigChange(
        set=wanted.set,
        deleted=wanted.deleted,
        replace_all=wanted.replace_all,
        appended=wanted.appended,
        subtracted=wanted.subtracted,
    )
    if target.topic is not None:
        change.type = pb.CONFIG_RESOURCE_TYPE_TOPIC
        change.topic_id = target.topic.topic_id
    elif target.client_metrics is not None:
        change.type = pb.CONFIG_RESOURCE_TYPE_CLIENT_METRICS
        change.name = target.client_metrics
    elif target.group is not None:
        change.type = pb.CONFIG_RESOURCE_TYPE_GROUP
        change.name = target.group
    else:
        change.type = pb.CONFIG_RESOURCE_TYPE_NODE
        change.node_id = target.node
    return change


def _target(context: RequestContext, key: ResourceKey) -> Target | Refused:
    image = context.backend.image
    if key.type == ConfigResourceType.TOPIC:
        topic = image.topic(key.name, context.peer.instance)
        if topic is None:
            unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            return Refused(unknown, unknown.message)
        return Target(topic=topic)
    if key.type == ConfigResourceType.BROKER:
        if not key.name:
            return Target()
        if key.name.isdecimal() and NodeId(int(key.name)) in image.nodes:
            return Target(node=NodeId(int(key.name)))
        return Refused(ErrorCode.INVALID_REQUEST, f"there is no broker '{key.name}'")
    if key.type == ConfigResourceType.CLIENT_METRICS:
        return Target(client_metrics=key.name)
    if key.type == ConfigResourceType.GROUP:
        return Target(group=key.name)
    if key.type == ConfigResourceType.BROKER_LOGGER:
        node = node_of_loggers(context, key.name)
        return Refused(*node) if isinstance(node, LoggersError) else Target(loggers_of=node)
    return Refused(ErrorCode.INVALID_REQUEST, f"resource type {key.type} has no configs here")


def _refusal(target: Target, wanted: Assignments) -> Refused | None:
    """Refuses what the controller would refuse, with Kafka's codes, which differ for brokers.

    Configs of client metrics and groups are left to the controller, and loggers to their node, which
    have the rules.
    """
    elsewhere = target.client_metrics, target.group, target.loggers_of
    if any(one is not None for one in elsewhere):
        return None
    if target.topic is None:
        why = _node_error(wanted, all_nodes=target.node == NO_NODE)
        return None if why is None else Refused(ErrorCode.INVALID_REQUEST, why)
    present = {} if wanted.replace_all else dict(target.topic.configs)
    for name in wanted.deleted:
        present.pop(name, None)
    try:
        validate_change(present, wanted.set)
    except InvalidTopicConfigError as error:
        return Refused(ErrorCode.INVALID_CONFIG, str(error))
    return None


def _node_error(wanted: Assignments, *, all_nodes: bool) -> str | None:
    """Checks a broker's changes. Deleting an unknown config is allowed, as in Kafka."""
    errors = [
        dynamic_name_error(name, all_nodes=all_nodes)
        for name in (*wanted.appended, *wanted.subtracted)
    ]
    errors += [
        dynamic_config_error(name, value, all_nodes=all_nodes) for name, value in wanted.set.items()
    ]
    return next((why for why in errors if why is not None), None)

"""AlterConfigs: sets and removes configs of topics, nodes, client metrics subscriptions and groups.

KIP-339, keys 44 and 33. A subscription exists while it has configs, and is made by the first one; a
group with configs need not exist. A changed min.insync.replicas changes partitions in the same
transaction (`change_min_isr`).
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from highwater.controller.core.change_client_metrics import (
    SUBSCRIPTIONS_MAX,
    client_metrics_error,
    name_error,
)
from highwater.controller.core.change_group_configs import (
    GROUPS_MAX,
    group_configs_refusal,
    group_id_error,
)
from highwater.controller.core.change_instances import closed_instance, of_the_cluster
from highwater.controller.core.change_min_isr import topic_after_min_isr_change
from highwater.controller.core.change_topics import topic_of
from highwater.controller.core.config_rules import ConfigRules
from highwater.controller.core.instance_limits import message_bytes_error
from highwater.controller.core.outcome import PENDING_REVISION, Decision, Refusal
from highwater.kafka.error_codes import ErrorCode
from highwater.model.client_metrics import ClientMetricsKey
from highwater.model.cluster import ClusterDelta, ClusterImage, TopicState
from highwater.model.connection_configs import LISTENER_CONFIGS_MAX, listener_config_of
from highwater.model.group_config_table import GroupConfigKey
from highwater.model.ids import NO_NODE, InstanceId, NodeId, TopicId
from highwater.model.steps import Steps, finish


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigWish:
    """One resource's change: of `topic_id`, `node_id`, `client_metrics` and `group` one is given."""

    topic_id: TopicId | None = None
    node_id: NodeId | None = None
    """-1 is all nodes."""
    client_metrics: str | None = None
    """The name of a subscription."""
    group: str | None = None
    """The id of a group."""
    set: Mapping[str, str] = field(default_factory=dict)
    deleted: tuple[str, ...] = ()
    replace_all: bool = False
    """True: configs that are not set go back to their defaults."""
    appended: Mapping[str, str] = field(default_factory=dict)
    """Lists that get items: by name, the items, separated by commas."""
    subtracted: Mapping[str, str] = field(default_factory=dict)
    """Lists that lose items, in the same form."""


@dataclass(slots=True)
class _Changed:
    topics: dict[TopicId, TopicState] = field(default_factory=dict)
    cluster: Mapping[str, str] | None = None
    nodes: dict[NodeId, Mapping[str, str]] | None = None
    client_metrics: dict[ClientMetricsKey, Mapping[str, str]] = field(default_factory=dict)
    groups: dict[GroupConfigKey, Mapping[str, str]] = field(default_factory=dict)


def alter_configs(
    image: ClusterImage, instance: InstanceId, wishes: Sequence[ConfigWish], rules: ConfigRules
) -> Decision[list[Refusal | None]]:
    """The changed configs; None in the result is success. Later wishes build on earlier ones."""
    return finish(altering_configs(image, instance, wishes, rules))


def altering_configs(
    image: ClusterImage, instance: InstanceId, wishes: Sequence[ConfigWish], rules: ConfigRules
) -> Steps[Decision[list[Refusal | None]]]:
    """`alter_configs` in steps: the patterns of a subscription may take their time."""
    changed = _Changed()
    results: list[Refusal | None] = []
    for wish in wishes:
        if wish.topic_id is not None:
            results.append(_alter_topic(image, instance, wish, wish.topic_id, rules, changed))
        elif wish.node_id is None and (refusal := closed_instance(image, instance)) is not None:
            results.append(refusal)
        elif wish.client_metrics is not None:
            key = ClientMetricsKey(instance, wish.client_metrics)
            results.append(_alter_client_metrics(image, wish, key, changed))
            yield
        elif wish.group is not None:
            results.append(_alter_group(image, wish, GroupConfigKey(instance, wish.group), changed))
            yield
        else:
            results.append(of_the_cluster(instance) or _alter_node(image, wish, rules, changed))
    _change_minima(image, rules, changed)
    delta = ClusterDelta(
        revision=PENDING_REVISION,
        topics=tuple(changed.topics.values()),
        cluster_configs=changed.cluster,
        node_configs=changed.nodes,
        client_metrics=changed.client_metrics,
        group_configs=changed.groups,
    )
    some = (
        changed.topics
        or changed.client_metrics
        or changed.groups
        or changed.cluster is not None
        or changed.nodes is not None
    )
    return Decision(delta=delta if some else None, result=results)


def _alter_topic(
    image: ClusterImage,
    instance: InstanceId,
    wish: ConfigWish,
    topic_id: TopicId,
    rules: ConfigRules,
    changed: _Changed,
) -> Refusal | None:
    topic = topic_of(image, instance, topic_id)
    if isinstance(topic, Refusal):
        return topic
    present = changed.topics.get(topic_id, topic)
    brokers = _brokers(image, topic, changed)
    resolved = _with_lists(
        wish,
        lambda name, added, removed: rules.changed_list(
            name, present.configs, brokers, added=added, removed=removed
        ),
    )
    if isinstance(resolved, Refusal):
        return resolved
    wish = resolved
    why = rules.topic_error(_kept(present.configs, wish), wish.set)
    if not topic.internal:
        why = why or message_bytes_error(image, instance, wish.set)
    if why is not None:
        return Refusal(code=ErrorCode.INVALID_CONFIG, message=why)
    after = replace(present, configs=_merged(present.configs, wish))
    if after != present:
        changed.topics[topic_id] = after
    return None


def _with_lists(
    wish: ConfigWish, changed_list: Callable[[str, str, str], str | None]
) -> ConfigWish | Refusal:
    """The wish with whole lists to set, made from the lists at this revision.

    `changed_list`: (name, added, removed) -> the list, None if it is not one.
    """
    if not (wish.appended or wish.subtracted):
        return wish
    lists: dict[str, str] = {}
    for name in dict.fromkeys((*wish.appended, *wish.subtracted)):
        added, removed = wish.appended.get(name, ""), wish.subtracted.get(name, "")
        value = changed_list(name, added, removed)
        if value is None:
            return Refusal(code=ErrorCode.INVALID_CONFIG, message=f"{name} is not a list")
        lists[name] = value
    return replace(wish, set={**wish.set, **lists}, appended={}, subtracted={})


def _brokers(image: ClusterImage, topic: TopicState, changed: _Changed) -> Mapping[str, str]:
    """The topic's defaults: the configs of a broker that has the topic."""
    cluster = image.cluster_configs if changed.cluster is None else changed.cluster
    nodes = image.node_configs if changed.nodes is None else changed.nodes
    for node in topic.partitions[0].replicas:
        if node in image.nodes:
            return {**image.nodes[node].static_configs, **cluster, **nodes.get(node, {})}
    return cluster


def _alter_node(
    image: ClusterImage, wish: ConfigWish, rules: ConfigRules, changed: _Changed
) -> Refusal | None:
    node = wish.node_id
    if node is None or (node != NO_NODE and node not in image.nodes):
        return Refusal(code=ErrorCode.INVALID_REQUEST, message=f"there is no node {node}")
    nodes = changed.nodes if changed.nodes is not None else dict(image.node_configs)
    if node == NO_NODE:
        before = changed.cluster if changed.cluster is not None else image.cluster_configs
    else:
        before = nodes.get(node, {})
    resolved = _with_lists(
        wish,
        lambda name, added, removed: rules.changed_node_list(
            name, before, added=added, removed=removed
        ),
    )
    if isinstance(resolved, Refusal):
        return resolved
    why = rules.node_error(resolved.set, all_nodes=node == NO_NODE)
    if why is not None:
        # Not INVALID_CONFIG: Kafka keeps this code for old clients (KAFKA-13609).
        return Refusal(code=ErrorCode.INVALID_REQUEST, message=why)
    after = _merged(before, resolved)
    if after == before:
        return None
    if sum(listener_config_of(name) is not None for name in after) > LISTENER_CONFIGS_MAX:
        why = f"There are no more than {LISTENER_CONFIGS_MAX} configs of listeners."
        return Refusal(code=ErrorCode.INVALID_REQUEST, message=why)
    if node == NO_NODE:
        changed.cluster = after
    else:
        nodes[node] = after
        changed.nodes = nodes
    return None


def _alter_client_metrics(
    image: ClusterImage, wish: ConfigWish, key: ClientMetricsKey, changed: _Changed
) -> Refusal | None:
    refusal = name_error(key.name)
    if refusal is not None:
        return refusal
    before = changed.client_metrics.get(key, image.client_metrics.get(key, {}))
    if wish.appended or wish.subtracted:
        # As in Kafka, whose controller does not know the types of these configs.
        why = "the configs of client metrics cannot be changed as lists"
        return Refusal(code=ErrorCode.INVALID_CONFIG, message=why)
    refusal = client_metrics_error(before, wish.set)
    if refusal is not None:
        return refusal
    after = _merged(before, wish)
    if after == before:
        return None
    if not before:
        known = {**image.client_metrics, **changed.client_metrics}
        present = sum(
            1 for one, configs in known.items() if configs and one.instance == key.instance
        )
        if present >= SUBSCRIPTIONS_MAX:
            why = f"There are no more than {SUBSCRIPTIONS_MAX} client metrics subscriptions."
            return Refusal(code=ErrorCode.POLICY_VIOLATION, message=why)
    changed.client_metrics[key] = after
    return None


def _alter_group(
    image: ClusterImage, wish: ConfigWish, key: GroupConfigKey, changed: _Changed
) -> Refusal | None:
    refusal = group_id_error(key.group_id)
    if refusal is not None:
        return refusal
    before = changed.groups.get(key, image.group_configs.get(key, {}))
    if wish.appended or wish.subtracted:
        why = "no config of groups is a list"
        return Refusal(code=ErrorCode.INVALID_CONFIG, message=why)
    after = _merged(before, wish)
    refusal = group_configs_refusal(image, before, after)
    if refusal is not None or after == before:
        return refusal
    if not before:
        known = {**image.group_configs, **changed.groups}
        present = sum(1 for one, some in known.items() if some and one.instance == key.instance)
        if present >= GROUPS_MAX:
            why = f"There are no more than {GROUPS_MAX} groups with configs."
            return Refusal(code=ErrorCode.POLICY_VIOLATION, message=why)
    changed.groups[key] = after
    return None


def _change_minima(image: ClusterImage, rules: ConfigRules, changed: _Changed) -> None:
    """Adds partitions to the delta if their min.insync.replicas changes."""
    cluster = image.cluster_configs if changed.cluster is None else changed.cluster
    concerned = changed.topics if changed.cluster is None else image.topics
    for topic_id in list(concerned):
        before = image.topics[topic_id]
        present = changed.topics.get(topic_id, before)
        after = topic_after_min_isr_change(
            present,
            before=rules.min_isr(before.configs, image.cluster_configs),
            after=rules.min_isr(present.configs, cluster),
        )
        if after is not present:
            changed.topics[topic_id] = after


def _kept(present: Mapping[str, str], wish: ConfigWish) -> dict[str, str]:
    return {} if wish.replace_all else {k: v for k, v in present.items() if k not in wish.deleted}


def _merged(present: Mapping[str, str], wish: ConfigWish) -> dict[str, str]:
    return {**_kept(present, wish), **wish.set}

"""Which configs the controller stores: those in `highwater.model`'s tables, with valid values."""

from collections.abc import Mapping
from typing import Final

from highwater.model.broker_config import BROKER_CONFIGS
from highwater.model.config_type import ConfigType
from highwater.model.dynamic_config import dynamic_config_error
from highwater.model.topic_config import (
    InvalidTopicConfigError,
    changed_list,
    effective_value,
    list_changed,
    validate_change,
)
from highwater.model.topic_config_table import TOPIC_CONFIGS

VALUE_BYTES_MAX: Final = 32_767
"""Kafka's (`ConfigurationControlManager`); the lists of replicas have no limit of their own."""

MESSAGE_CHARS_MAX: Final = 8_000
"""Refusals name the value. At four bytes each, so many fit into a string of the versions that are not
flexible, which ends at 32 767 bytes: a longer one could not be sent."""


class KafkaConfigRules:
    """Implements ConfigRules with Kafka's names, types and limits."""

    def topic_error(self, kept: Mapping[str, str], wanted: Mapping[str, str]) -> str | None:
        """See ConfigRules."""
        too_long = _too_long(wanted)
        if too_long is not None:
            return too_long
        try:
            validate_change(kept, wanted)
        except InvalidTopicConfigError as error:
            return _shortened(str(error))
        return None

    def changed_list(
        self,
        name: str,
        topic: Mapping[str, str],
        cluster: Mapping[str, str],
        *,
        added: str,
        removed: str,
    ) -> str | None:
        """See ConfigRules."""
        entry = TOPIC_CONFIGS.get(name)
        if entry is None or entry.type is not ConfigType.LIST:
            return None
        return changed_list(name, topic, cluster, added=added, removed=removed)

    def changed_node_list(
        self, name: str, present: Mapping[str, str], *, added: str, removed: str
    ) -> str | None:
        """See ConfigRules."""
        config = BROKER_CONFIGS.get(name)
        if config is None or config.type is not ConfigType.LIST:
            return None
        value = present.get(name, config.default or "")
        return list_changed(value, added=added, removed=removed)

    def node_error(self, wanted: Mapping[str, str], *, all_nodes: bool) -> str | None:
        """See ConfigRules."""
        too_long = _too_long(wanted)
        if too_long is not None:
            return too_long
        for name, value in wanted.items():
            why = dynamic_config_error(name, value, all_nodes=all_nodes)
            if why is not None:
                return _shortened(why)
        return None

    def min_isr(self, topic: Mapping[str, str], cluster: Mapping[str, str]) -> int:
        """See ConfigRules."""
        value = effective_value("min.insync.replicas", topic, cluster)
        assert isinstance(value, int)
        return value

    def unclean(self, topic: Mapping[str, str], cluster: Mapping[str, str]) -> bool:
        """See ConfigRules."""
        return bool(effective_value("unclean.leader.election.enable", topic, cluster))


def _too_long(wanted: Mapping[str, str]) -> str | None:
    for name, value in wanted.items():
        if len(value.encode()) > VALUE_BYTES_MAX:
            return _shortened(f"the value of {name} is longer than {VALUE_BYTES_MAX} bytes")
    return None


def _shortened(message: str) -> str:
    """The message without its middle, if it is too long: what is wrong stands at its end."""
    if len(message) <= MESSAGE_CHARS_MAX:
        return message
    half = MESSAGE_CHARS_MAX // 2
    return f"{message[: half - 1]}…{message[-half:]}"

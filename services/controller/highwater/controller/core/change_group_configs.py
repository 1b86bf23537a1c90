"""AlterConfigs of groups: which configs a group may get.

Kafka: `ControllerConfigurationValidator`, `GroupConfig.validate`; the number of groups with configs and
the length of their ids have limits. A group that has configs need not exist.
"""

from collections.abc import Mapping
from typing import Final

from highwater.controller.core.outcome import Refusal
from highwater.kafka.error_codes import ErrorCode
from highwater.model.cluster import ClusterImage
from highwater.model.group_config import bounds_of, group_config_error

GROUPS_MAX: Final = 10_000
"""Groups of one instance that have configs: every member of the cluster has them in memory."""

GROUP_ID_CHARS_MAX: Final = 1_024
"""Characters of the id of a group that has configs: it is a key in the store."""


def group_id_error(group_id: str) -> Refusal | None:
    """Why a group with this id cannot have configs, or None."""
    if not group_id:
        why = "Default group resources are not allowed."
    elif len(group_id) > GROUP_ID_CHARS_MAX:
        why = f"The id of a group with configs has at most {GROUP_ID_CHARS_MAX} characters."
    else:
        return None
    return Refusal(code=ErrorCode.INVALID_REQUEST, message=why)


def group_configs_refusal(
    image: ClusterImage, before: Mapping[str, str], after: Mapping[str, str]
) -> Refusal | None:
    """Why a group that has the configs `before` cannot have those `after`, or None.

    Values must suit every node: each may get the group. Nodes tell their settings that are not
    Kafka's defaults.
    """
    settings = [node.static_configs for node in image.nodes.values()] or [{}]
    for broker in settings:
        why = group_config_error(before, after, bounds_of(broker))
        if why is not None:
            return Refusal(code=ErrorCode.INVALID_CONFIG, message=why)
    return None

"""The policies by the names that the setting `policy` has for them."""

from collections.abc import Mapping
from typing import Final

from highwater.quota.core.policies.ckafka import CkafkaPolicy
from highwater.quota.core.policies.port import Policy
from highwater.quota.core.policies.static import StaticPolicy
from highwater.quota.core.policies.waterfill import WaterfillPolicy

POLICIES: Final[Mapping[str, Policy]] = {
    policy.name: policy for policy in (StaticPolicy(), CkafkaPolicy(), WaterfillPolicy())
}

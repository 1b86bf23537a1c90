from typing import get_args

from highwater.quota.config import QuotaConfig
from highwater.quota.core.policies.table import POLICIES


def test_the_setting_names_all_policies():
    assert set(get_args(QuotaConfig.model_fields["policy"].annotation)) == set(POLICIES)

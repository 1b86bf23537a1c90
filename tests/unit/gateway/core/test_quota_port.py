from highwater.gateway.core.quota_port import QuotaPort
from highwater.gateway.quota.core.client_quota import ClientQuota
from tests.unit.gateway.quota.fake_quota import FakeQuota


def test_the_quotas_of_clients_and_those_of_tests_have_all_of_it():
    wanted = {name for name in vars(QuotaPort) if not name.startswith("_")}
    assert len(wanted) > 5
    assert wanted <= set(dir(ClientQuota))
    assert wanted <= set(dir(FakeQuota()))

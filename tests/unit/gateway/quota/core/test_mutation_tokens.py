import pytest

from highwater.gateway.quota.core.mutation_tokens import MutationTokens
from highwater.gateway.quota.core.windowed_rate import QuotaWindows


@pytest.fixture
def tokens():
    return MutationTokens(QuotaWindows())


def test_a_full_bucket_has_what_all_windows_give(tokens):
    tokens.take(0, limit=2, partitions=22)
    assert tokens.may_take(0, limit=2)
    assert tokens.delay_ms(0, limit=2) == 0


def test_a_debt_has_to_be_paid_before_anything_passes(tokens):
    tokens.take(0, limit=2, partitions=25)
    assert not tokens.may_take(0, limit=2)
    assert tokens.delay_ms(0, limit=2) == 1500
    assert tokens.delay_ms(1000, limit=2) == 500
    assert not tokens.may_take(1499, limit=2)
    assert tokens.may_take(1500, limit=2)


def test_it_is_never_more_than_full(tokens):
    tokens.take(0, limit=1, partitions=1)
    tokens.take(1_000_000, limit=1, partitions=12)
    assert tokens.delay_ms(1_000_000, limit=1) == 1000


def test_a_higher_limit_pays_sooner(tokens):
    tokens.take(0, limit=1, partitions=21)
    assert tokens.delay_ms(0, limit=1) == 10_000
    assert tokens.delay_ms(0, limit=10) == 1000

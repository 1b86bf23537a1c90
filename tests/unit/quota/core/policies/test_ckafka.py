"""The five steps, one after the other."""

import pytest

from highwater.quota.core.policies.ckafka import CkafkaPolicy
from highwater.quota.core.policies.port import Demand, Sharing

LIMIT = 1_000


def share(leaders, served, limit=LIMIT):
    demands = {node: Demand(served=rate, held=10**6) for node, rate in served.items()}
    return CkafkaPolicy().share(Sharing(limit=limit, leaders=leaders, demands=demands))


def test_nothing_flows():
    assert share({1: 1, 2: 3}, {1: 0, 2: 0}) == {1: 250, 2: 750}


def test_everybody_is_quiet():
    assert share({1: 1, 2: 1}, {1: 399, 2: 0}) == {1: 500, 2: 500}


def test_at_four_fifths_a_node_is_not_quiet():
    assert share({1: 1, 2: 1}, {1: 400, 2: 0}) == {1: 1000, 2: 100}


def test_alike_flows_get_their_parts():
    assert share({1: 1, 2: 1}, {1: 500, 2: 400}) == {1: 555, 2: 444}  # 10/9 of them


def test_the_largest_keeps_its_part_and_others_get_a_tenth_of_it():
    assert share({1: 1, 2: 1, 3: 1}, {1: 60, 2: 600, 3: 340}) == {1: 120, 2: 600, 3: 400}


def test_nobody_gets_more_than_the_largest():
    assert share({1: 1, 2: 1, 3: 1}, {1: 500, 2: 490, 3: 10}) == {1: 500, 2: 500, 3: 60}


def test_all_of_it_flows_at_one_node():
    assert share({1: 1, 2: 1, 3: 1}, {1: 1000, 2: 0, 3: 0}) == {1: 1000, 2: 100, 3: 100}


@pytest.mark.parametrize(
    ("nodes", "ratio"), [(3, 1.2), (5, 1.4), (10, 1.9), (30, 3.9), (100, 10.9)]
)
def test_worst_case_of_the_sum(nodes, ratio):
    leaders = dict.fromkeys(range(1, nodes + 1), 1)
    given = share(leaders, {1: 10**6} | dict.fromkeys(range(2, nodes + 1), 0), limit=10**6)
    assert sum(given.values()) / 10**6 == pytest.approx(ratio)


def test_a_node_that_leads_anew_gets_its_static_share_at_least():
    assert share({1: 1, 2: 1}, {1: 500}) == {1: 1000, 2: 500}


def test_without_leaders_there_is_nobody_to_share():
    assert share({}, {}) == {}

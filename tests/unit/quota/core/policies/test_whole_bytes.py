from highwater.quota.core.policies.whole_bytes import divide


def test_parts_add_up_and_ties_go_to_lower_ids():
    assert divide(100, {3: 1, 1: 1, 2: 1}) == {1: 34, 2: 33, 3: 33}
    assert divide(5, {1: 3, 2: 1}) == {1: 4, 2: 1}


def test_without_weight_nobody_gets_anything():
    assert divide(100, {}) == {}
    assert divide(100, {1: 0}) == {1: 0}

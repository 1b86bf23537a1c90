from types import SimpleNamespace

from highwater.gateway.quota.core.recent import Recent


def recent(**limits):
    return Recent(
        lambda: SimpleNamespace(used_ms=0, value=[]), **{"idle_ms": 100, "entries_max": 3, **limits}
    )


def test_an_entry_stays_as_long_as_it_is_used():
    table = recent()
    first = table.get("a", 0)
    for now_ms in range(0, 1000, 90):
        assert table.get("a", now_ms) is first


def test_what_rests_is_dropped():
    table = recent()
    first = table.get("a", 0)
    table.get("b", 101)
    assert len(table) == 1
    assert table.get("a", 101) is not first


def test_above_the_limit_those_go_that_were_quiet_the_longest():
    table = recent()
    a, b = table.get("a", 0), table.get("b", 1)
    table.get("c", 2)
    table.get("a", 3)
    table.get("d", 4)
    assert len(table) == 3
    assert table.get("a", 5) is a
    assert table.get("b", 6) is not b

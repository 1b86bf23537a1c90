from highwater.gateway.quota.core.recent import Recent


class Entry:
    """Owes something until `owes_until_ms`."""

    used_ms = 0
    owes_until_ms = 0

    def owes(self, now_ms):
        return now_ms < self.owes_until_ms


def recent(**limits):
    return Recent(Entry, **{"idle_ms": 100, "entries_max": 3, **limits})


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


def test_who_owes_something_stays_while_there_is_room():
    table = recent()
    first = table.get("a", 0)
    first.owes_until_ms = 250
    table.get("b", 1)
    table.get("c", 200)
    assert len(table) == 2
    assert table.get("a", 240) is first
    table.get("c", 400)
    assert len(table) == 1
    other = table.get("d", 400)
    other.owes_until_ms = 1_000
    for name in "efg":
        table.get(name, 400)
    assert table.get("d", 400) is not other


def test_above_the_limit_those_go_that_were_quiet_the_longest():
    table = recent()
    a, b = table.get("a", 0), table.get("b", 1)
    table.get("c", 2)
    table.get("a", 3)
    table.get("d", 4)
    assert len(table) == 3
    assert table.get("a", 5) is a
    assert table.get("b", 6) is not b

from highwater.balancer.core.pool import FALL, Pool


def pool_of(*addresses, up=True):
    pool = Pool()
    pool.resolved(addresses)
    for address in addresses:
        if up:
            assert pool.checked(address, healthy=True)
    return pool


def test_a_new_gateway_takes_nobody_before_its_first_check():
    pool = pool_of("a", up=False)
    assert pool.choose(0) is None
    assert pool.checked("a", healthy=True)
    assert pool.choose(0) == "a"


def test_clients_spread_evenly():
    pool = pool_of("a", "b", "c")
    taken = []
    for _ in range(9):
        taken.append(pool.choose(0))
        pool.opened(taken[-1])
    assert sorted(taken) == ["a"] * 3 + ["b"] * 3 + ["c"] * 3
    assert len(set(taken[:3])) == 3


def test_gateways_with_equal_load_take_turns():
    pool = pool_of("a", "b")
    assert [pool.choose(0) for _ in range(4)] == ["a", "b", "a", "b"]


def test_the_gateway_with_the_fewest_connections_is_next():
    pool = pool_of("a", "b")
    opened = [pool.opened("a"), pool.opened("b"), pool.opened("b")]
    assert pool.choose(0) == "a"
    pool.closed(opened[1])
    pool.closed(opened[2])
    assert pool.choose(0) == "b"


def test_gateways_that_were_tried_are_not_chosen_again():
    pool = pool_of("a", "b")
    assert {pool.choose(0, but=["a"]), pool.choose(0, but=["b"])} == {"a", "b"}
    assert pool.choose(0, but=["a", "b"]) is None


def test_one_failed_check_is_tolerated():
    pool = pool_of("a")
    for _ in range(FALL - 1):
        assert not pool.checked("a", healthy=False)
    assert not pool.checked("a", healthy=True)
    for number in range(FALL):
        assert pool.checked("a", healthy=False) == (number == FALL - 1)
    assert pool.up == []
    assert not pool.checked("a", healthy=False)
    assert pool.checked("a", healthy=True), "one good check brings it back"


def test_changed_addresses_replace_old_ones():
    pool = pool_of("a", "b")
    of_a = pool.opened("a")
    pool.resolved(["b", "c"])
    assert (pool.addresses, pool.up) == (["b", "c"], ["b"])
    assert not pool.checked("a", healthy=True), "the answer to an earlier question"
    pool.closed(of_a)
    pool.resolved(["a", "b"])
    assert pool.up == ["b"], "an address that returns is checked first"


def test_a_port_that_a_gateway_refuses_is_tried_there_last_until_its_next_check():
    pool = pool_of("a", "b", "c")
    for address in ("a", "b"):
        pool.refused(address, 2)
    pool.opened("c")
    assert pool.choose(2) == "c", "in spite of its connections"
    assert pool.choose(1) == "a", "another port"
    assert pool.choose(2, but=["c"]) == "b", "it may be served there by now"
    pool.checked("a", healthy=True)
    assert pool.choose(2) == "a"
    pool.refused("gone", 2)

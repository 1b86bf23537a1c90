from highwater.model.token_bucket import DECAY_MS
from highwater.quota.sharing.grants import LEASE_TICKS, SENT_MAX, Grants, Rates

TICK_MS = 1_000
HOLD_MS = LEASE_TICKS * TICK_MS + DECAY_MS


def grants(*leaders):
    made = Grants(TICK_MS)
    made.set_leaders({"i": dict.fromkeys(leaders, 1)})
    return made


def rates(produce, consume=0):
    return {"i": Rates(produce, consume)}


def test_a_node_may_use_the_larger_one_until_it_goes_by_the_smaller():
    made = grants(1)
    made.connected(1, rates(50), 0)
    made.sent(1, 7, rates(20, 5), 0)
    assert made.taken("i") == Rates(50, 5)
    made.applied(1, 6)
    assert made.taken("i") == Rates(50, 5)
    made.applied(1, 7)
    assert made.taken("i") == Rates(20, 5)


def test_a_tick_counts_as_an_acknowledgement():
    made = grants(1)
    made.connected(1, rates(50), 0)
    made.sent(1, 7, rates(20), 100)
    made.settle(100 + TICK_MS - 1)
    assert made.taken("i") == Rates(50)
    made.settle(100 + TICK_MS)
    assert made.taken("i") == Rates(20)


def test_others_are_counted_without_the_node_itself():
    made = grants(1, 2)
    made.connected(1, rates(50, 1), 0)
    made.connected(2, rates(30, 2), 0)
    assert made.taken_by_others(1, "i") == Rates(30, 2)
    assert made.taken_by_others(9, "i") == Rates(80, 3)


def test_a_lost_node_that_leads_keeps_its_share_until_it_has_decayed():
    made = grants(1)
    made.connected(1, rates(50), 0)
    made.lost(1, 10)
    made.settle(10 + HOLD_MS - 1)
    assert made.taken("i") == Rates(50)
    made.settle(10 + HOLD_MS)
    assert made.taken("i") == Rates()


def test_a_lost_node_that_leads_nothing_any_more_uses_nothing():
    made = grants(1)
    made.connected(1, rates(50), 0)
    made.lost(1, 10)
    made.set_leaders({"i": {2: 1}})
    assert made.taken("i") == Rates()


def test_many_answers_without_an_acknowledgement_are_counted_together():
    made = grants(1)
    made.connected(1, rates(0), 0)
    for number in range(3 * SENT_MAX):
        made.sent(1, number, rates(100 - number), 0)
    assert made.taken("i") == Rates(100)


def test_it_is_complete_when_all_leaders_have_told_their_shares():
    made = grants(1, 2)
    made.connected(1, rates(10), 5)
    assert not made.complete("i", 5)
    assert made.complete("i", 5 + HOLD_MS)
    made.connected(2, rates(80), 6)
    assert made.complete("i", 6)

from highwater.quota.core.allocation import Allocation, Share, decreases_only


def allocation(produce, consume=None, **more):
    return {"i": Allocation(instance="i", produce=produce, consume=consume, **more)}


def test_increases_wait_and_decreases_do_not():
    present = allocation(Share(rate=100, floor=100), Share(rate=10, floor=10))
    wanted = allocation(Share(rate=150, floor=120), Share(rate=5, floor=5), storage_exhausted=True)
    assert decreases_only(present, wanted) == allocation(
        Share(rate=100, floor=100), Share(rate=5, floor=5), storage_exhausted=True
    )


def test_limits_that_appear_and_go_are_taken_at_once():
    share = Share(rate=1, floor=1)
    assert decreases_only({}, allocation(share)) == allocation(share)
    assert decreases_only(allocation(None), allocation(share)) == allocation(share)
    assert decreases_only(allocation(share), allocation(None)) == allocation(None)
    assert decreases_only(allocation(share), {}) == {}

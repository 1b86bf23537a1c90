import random

import pytest

from highwater.partition.core.producer_generations import GENERATIONS_MAX, ProducerGenerations


def put(known: ProducerGenerations, producer_id: int, batches: bytes) -> None:
    if producer_id not in known.newest:
        known.take(producer_id)
    known.newest[producer_id] = batches


@pytest.mark.parametrize("limit", [1, 7, 40, 1000])
def test_it_is_a_mapping_with_the_oldest_known(limit: int) -> None:
    known = ProducerGenerations(limit)
    model: dict[int, bytes] = {}
    choose = random.Random(limit)
    for number in range(4000):
        producer_id = choose.randrange(60)
        match choose.randrange(8):
            case 0:
                oldest = known.pop_oldest()
                assert (oldest is None) == (not model)
                if oldest is not None:
                    assert model.pop(oldest[0]) == oldest[1]
            case 1 if producer_id in model:
                known.remove(producer_id)
                del model[producer_id]
            case _:
                put(known, producer_id, b"%d" % number)
                model.pop(producer_id, None)
                model[producer_id] = b"%d" % number
        assert len(known) == len(model)
        assert known.find(producer_id) == model.get(producer_id)
    assert sorted(known.ids()) == sorted(model)
    assert sorted(known.batches()) == sorted(model.values())
    known.clear()
    assert (len(known), known.ids(), known.pop_oldest()) == (0, [], None)


def test_small_generations_keep_the_exact_order() -> None:
    known = ProducerGenerations(4)
    for producer_id in (1, 2, 3, 1, 4, 2):
        put(known, producer_id, b"")
    assert [known.pop_oldest() for _ in range(4)] == [(3, b""), (1, b""), (4, b""), (2, b"")]


def test_whoever_stays_behind_does_not_keep_generations() -> None:
    """One producer of each generation never writes again: its table would stay for it alone."""
    known = ProducerGenerations(400)
    left = range(10_000, 10_300)
    for silent in left:
        put(known, silent, b"")
        for producer_id in range(100):
            put(known, producer_id, b"")
        assert len(known.older) <= GENERATIONS_MAX
    assert [known.pop_oldest() for _ in range(200)] == [(silent, b"") for silent in left[:200]]


def test_who_is_held_back_is_found_and_never_the_oldest_until_it_writes_again() -> None:
    known = ProducerGenerations(4)
    for producer_id in (1, 2, 3):
        put(known, producer_id, b"%d" % producer_id)
    oldest = known.pop_oldest()
    assert oldest == (1, b"1")
    known.hold(*oldest)
    assert (len(known), known.ids(), known.batches()) == (3, [1, 2, 3], [b"1", b"2", b"3"])
    assert known.find(1) == b"1"
    assert known.pop_oldest() == (2, b"2")
    assert known.take(1) == b"1"
    known.newest[1] = b"again"
    assert [known.pop_oldest() for _ in range(3)] == [(3, b"3"), (1, b"again"), None]
    known.hold(7, b"7")
    known.remove(7)
    assert len(known) == 0
    known.hold(8, b"8")
    known.clear()
    assert (len(known), known.find(8)) == (0, None)


def test_who_is_renewed_comes_after_all_others() -> None:
    known = ProducerGenerations(4)
    for producer_id in (1, 2, 3):
        put(known, producer_id, b"%d" % producer_id)
    oldest = known.pop_oldest()
    assert oldest is not None
    known.renew(*oldest)
    assert (len(known), known.find(1)) == (3, b"1")
    assert [known.pop_oldest() for _ in range(4)] == [(2, b"2"), (3, b"3"), (1, b"1"), None]

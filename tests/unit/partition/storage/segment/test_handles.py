from highwater.partition.storage.segment.handles import HandleClock


class Handle:
    def __init__(self, clock: HandleClock) -> None:
        self.clock = clock
        self.pins = 0
        self.referenced = False
        self.entered = False
        self.opened = False

    def open(self) -> None:
        if not self.opened:
            self.opened = True
            self.clock.enter(self)
        self.referenced = True

    def is_open(self) -> bool:
        return self.opened

    def release(self) -> None:
        self.opened = False


def handles(clock: HandleClock, count: int) -> list[Handle]:
    made = [Handle(clock) for _ in range(count)]
    for handle in made:
        handle.open()
    return made


def test_no_more_than_the_capacity_is_open() -> None:
    clock = HandleClock(3)
    made = handles(clock, 10)
    assert sum(handle.opened for handle in made) == 3
    assert made[-1].opened
    assert clock.evictions == 7


def test_used_handles_stay_open() -> None:
    clock = HandleClock(3)
    favourite, *others = handles(clock, 3)
    for other in others:
        other.referenced = False
    for other in [Handle(clock) for _ in range(20)]:
        favourite.referenced = True
        other.open()
        assert favourite.opened
        other.referenced = False


def test_pinned_handles_stay_even_above_the_capacity() -> None:
    clock = HandleClock(2)
    made = [Handle(clock) for _ in range(4)]
    for handle in made:
        handle.pins = 1
        handle.open()
    assert all(handle.opened for handle in made)
    assert len(clock) == 4
    for handle in made:
        handle.pins = 0
    Handle(clock).open()
    assert sum(handle.opened for handle in made) == 1
    assert len(clock) == 2


def test_handles_that_closed_themselves_make_room() -> None:
    clock = HandleClock(2)
    first, second = handles(clock, 2)
    first.release()
    third = Handle(clock)
    third.open()
    assert second.opened
    assert third.opened
    first.open()
    assert sum(handle.opened for handle in (first, second, third)) == 2


def test_a_handle_that_opens_again_stands_in_the_ring_once() -> None:
    clock = HandleClock(5)
    [handle] = handles(clock, 1)
    for _ in range(10):
        handle.release()
        handle.open()
    assert len(clock) == 1

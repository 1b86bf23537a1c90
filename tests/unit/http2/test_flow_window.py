from highwater.http2.flow_window import WINDOW_MAX, ReceiveWindow, SendWindow


def test_nothing_is_given_back_before_as_much_is_due_as_is_left():
    window = ReceiveWindow(1000)
    window.left -= 499
    assert window.give_back() == 0
    window.left -= 1
    assert window.give_back() == 500
    assert window.left == 1000


def test_what_is_held_is_not_given_back():
    window = ReceiveWindow(1000)
    window.left -= 1000
    window.held += 1000
    assert window.give_back() == 0
    window.held -= 400
    assert window.give_back() == 400
    assert window.left == 400


def test_a_window_that_is_mostly_held_still_moves():
    window = ReceiveWindow(1000)
    window.left -= 900
    window.held += 900
    for _ in range(10):
        window.left -= 60
        assert window.give_back() == 60


def test_a_send_window_may_be_negative_but_not_overflow():
    window = SendWindow(100)
    assert window.grow(-300)
    assert window.left == -200
    assert window.grow(WINDOW_MAX + 200)
    assert not window.grow(1)

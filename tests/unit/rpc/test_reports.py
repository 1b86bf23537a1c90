from highwater.rpc.reports import guarded


def test_what_a_callback_raises_is_reported_by_name():
    failures = []

    def fail():
        raise ZeroDivisionError

    guarded(lambda name, error: failures.append((name, type(error))), "/a/b", fail)
    assert failures == [("/a/b", ZeroDivisionError)]


def test_a_callback_that_works_is_not():
    ran = []
    guarded(lambda *_: ran.append("failed"), "/a/b", lambda: ran.append("ran"))
    assert ran == ["ran"]

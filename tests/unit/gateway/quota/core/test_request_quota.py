from highwater.gateway.quota.core.request_quota import NO_QUOTA, LimitedRequest


class Quota:
    def __init__(self):
        self.changed, self.ended = [], []

    def may_change(self, partitions, *, strict):
        self.changed.append((partitions, strict))
        return False

    def request_ended(self, ns, *, changes):
        self.ended.append((ns, changes))
        return 7


def test_a_client_without_quotas_may_do_everything():
    assert NO_QUOTA.may_change(10**9, strict=True)
    assert (NO_QUOTA.ended(), NO_QUOTA.throttle_ms) == (0, 0)


def test_the_time_until_the_answer_counts_once():
    quota, spent = Quota(), iter((100, 130))
    request = LimitedRequest(quota, lambda: next(spent))
    assert request.throttle_ms == 0
    assert request.ended() == request.throttle_ms == 7
    assert not request.may_change(5, strict=True)
    assert request.ended() == 7
    assert quota.ended == [(100, False), (30, True)]
    assert quota.changed == [(5, True)]

"""A connection's quota that throttles as a test says."""


class FakeQuota:
    limits, times, fetch_bytes_max = (), False, 300

    def __init__(self, ms=0):
        self.ms = ms
        self.counted = []

    def produced(self, nbytes, throttle_ms):
        self.counted.append(nbytes)
        return max(self.ms, throttle_ms)

    consumed = produced

    def fetch_hold_ms(self):
        return 0

    def may_change(self, partitions, *, strict):
        self.counted.append((partitions, strict))
        return not strict

    def worked(self, ns):
        self.counted.append(ns)

    def request_ended(self, ns, *, changes):
        self.counted.append(changes)
        return self.ms


class Owing:
    """The quota of a request that lets only one topic pass, and none that is strict after it."""

    throttle_ms = 0

    def __init__(self):
        self.asked = []

    def may_change(self, partitions, *, strict):
        self.asked.append((partitions, strict))
        return len(self.asked) == 1 or not strict

    def ended(self):
        return 0

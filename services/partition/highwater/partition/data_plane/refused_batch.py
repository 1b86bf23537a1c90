"""A batch that was refused before its append."""

from highwater.hop.append import Failure


class RefusedBatch(bytearray):
    """Stands in its group for a batch that could not be converted; it has no bytes.

    So the loop over the group's batches, which is hot, needs no question for it: it takes no batch
    that is shorter than a header, and asks `verdict_on` why.
    """

    __slots__ = ("failure",)

    def __init__(self, failure: Failure) -> None:
        super().__init__()
        self.failure = failure

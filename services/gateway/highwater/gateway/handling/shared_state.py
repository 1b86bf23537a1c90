"""State that the handlers of one gateway keep between requests; used on one loop."""

import asyncio
from collections import defaultdict
from typing import Final

from highwater.gateway.handling.one_a_turn import OneATurn
from highwater.metadata.producer_ids import ProducerIds
from highwater.model.ids import InstanceId

CREATIONS_MAX: Final = 10_000
"""Topics under creation at a time for clients that only asked for metadata. Those of an instance may be at
most as many as there is room for then, so that room is left for others."""


class SharedState:
    """One per gateway, made with it and handed to handlers as `Backend.shared`."""

    __slots__ = ("creations", "long_answers", "producer_ids")

    def __init__(self) -> None:
        self.creations: defaultdict[InstanceId, dict[str, asyncio.Future[int]]] = defaultdict(dict)
        """Topics under creation by instance, with the error code to come."""
        self.long_answers = OneATurn()
        """For answers about all topics."""
        self.producer_ids = ProducerIds()

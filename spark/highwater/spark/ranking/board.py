"""The newest window's ranking as records of a compacted topic: one key for each rank."""

import json
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """One rank of one window; times are seconds since 1970."""

    window_start_s: int
    window_end_s: int
    rank: int
    item: str
    views: int
    clicks: int
    click_through: float | None


def records(places: list[Place], top: int) -> list[tuple[str, str | None]]:
    """Returns a key and a value for each rank up to `top` of the newest window among the places.

    The key is the rank. Ranks that the window does not fill are tombstones, so that a reader never sees
    two windows at once after compaction.
    """
    if not places:
        return []
    newest_s = max(place.window_start_s for place in places)
    by_rank = {place.rank: place for place in places if place.window_start_s == newest_s}
    return [(str(rank), _value(by_rank.get(rank))) for rank in range(1, top + 1)]


def _value(place: Place | None) -> str | None:
    if place is None:
        return None
    return json.dumps(
        {
            "window_start": place.window_start_s,
            "window_end": place.window_end_s,
            "rank": place.rank,
            "item": place.item,
            "views": place.views,
            "clicks": place.clicks,
            "click_through": place.click_through,
        }
    )

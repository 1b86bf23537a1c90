"""Searches of a log by timestamp, carried out at once."""

from highwater.partition.storage.log.timestamp_lookup import Found
from highwater.partition.storage.log.timestamp_search import Search


def found_by(search: Search) -> Found | None:
    """What the search finds, every batch read and decoded here."""
    answer: Found | None = None
    while True:
        try:
            question = search.send(answer)
        except StopIteration as stop:
            found: Found | None = stop.value
            return found
        answer = question.answer(question.segment.open())

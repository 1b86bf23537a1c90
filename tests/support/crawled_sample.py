"""What `crawlers` has to find in the sample log."""

from __future__ import annotations

from collections import defaultdict

from tests.support.stream_jobs import sample_events

Row = tuple[str, str, int, int, int]


def expected(
    *, requests: int, within_s: int, gap_s: int, late_s: int
) -> tuple[list[Row], dict[str, int]]:
    """(client, state, at, session start, requests), and the entries that stay: client -> since.

    Counted session by session, not as the job does it.
    """
    by_client: dict[str, list[int]] = defaultdict(list)
    events = sample_events()
    for event in events:
        by_client[event.client].append(int(event.time.timestamp()))
    watermark_s = int(events[-1].time.timestamp()) - late_s
    rows: list[Row] = []
    entries: dict[str, int] = {}
    for client, times in by_client.items():
        breaks = [i for i in range(1, len(times)) if times[i] - times[i - 1] > gap_s]
        for first, end in zip([0, *breaks], [*breaks, len(times)], strict=True):
            session = times[first:end]
            full = range(requests - 1, len(session))
            hit = [i for i in full if session[i] - session[i - requests + 1] <= within_s]
            if not hit:
                continue
            rows.append((client, "begin", session[hit[0]], session[0], hit[0] + 1))
            over_s = session[-1] + gap_s
            if end < len(times) or over_s < watermark_s:
                rows.append((client, "end", over_s, session[0], len(session)))
            else:
                entries[client] = session[hit[0]]
    return sorted(rows), entries

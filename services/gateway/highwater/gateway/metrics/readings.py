"""What a gateway tells Prometheus beside its requests: single values of its parts."""

from highwater.gateway.core.budget import MemoryBudget
from highwater.gateway.core.fetch_session_cache import FetchSessionCache
from highwater.gateway.data_plane.held_produce import HeldProduce
from highwater.gateway.login.gate import LoginGate
from highwater.gateway.metrics.gateway import GatewayReadings
from highwater.gateway.routing.node_links import NodeLinks
from highwater.gateway.sockets.listener import Listener
from highwater.hop.ports import NodeLink


def gateway_readings(
    listener: Listener,
    gate: LoginGate,
    budget: MemoryBudget,
    sessions: FetchSessionCache[NodeLink],
    held: HeldProduce,
    links: NodeLinks,
) -> GatewayReadings:
    """Reads these parts at each scrape."""
    readings = GatewayReadings()
    _add_connections(readings, listener, gate)
    _add_memory(readings, budget, held)
    _add_fetch_sessions(readings, sessions)
    _add_links(readings, links)
    return readings


def _add_connections(readings: GatewayReadings, listener: Listener, gate: LoginGate) -> None:
    readings.gauge("connections", "Client connections.", lambda: len(listener.connections))
    readings.counter(
        "refused_connections",
        "Connections refused at accept: too many, also of an address, or without a PROXY header.",
        lambda: listener.newcomers.refused + listener.newcomers.arrivals.refused,
    )
    readings.counter(
        "delayed_connections",
        "Connections that waited for a rate or a place (max.connection.creation.rate, max.connections).",
        lambda: listener.newcomers.arrivals.delayed,
    )
    readings.gauge(
        "waiting_connections",
        "Connections that wait for a rate or a place.",
        lambda: len(listener.newcomers.arrivals.waiting),
    )
    readings.counter(
        "failed_handshakes",
        "Connections that ended before their handshake of TLS.",
        lambda: listener.newcomers.failed_handshakes,
    )
    readings.counter("logins", "Logins of clients.", lambda: gate.logins)
    readings.counter("failed_logins", "Logins that were refused.", lambda: gate.failed)
    readings.counter(
        "late_logins", "Connections closed because no login came in time.", lambda: gate.late
    )
    readings.counter(
        "descriptor_shortages",
        "Connections closed, and seconds passed, without a free descriptor.",
        lambda: listener.descriptor_shortages,
    )


def _add_memory(readings: GatewayReadings, budget: MemoryBudget, held: HeldProduce) -> None:
    readings.gauge("request_bytes_held", "Bytes of unanswered requests.", lambda: budget.used)
    readings.gauge(
        "produce_bytes_held",
        "Bytes of batches that wait for their partition's leader.",
        lambda: held.nbytes,
    )
    readings.gauge("begun_bytes_held", "Bytes of partly received requests.", lambda: budget.begun)
    readings.gauge(
        "reply_bytes_held", "Bytes of replies that wait for clients.", lambda: budget.replies
    )
    readings.counter(
        "begun_requests_given_up",
        "Connections closed in the middle of a request, to make room for others.",
        lambda: budget.given_up,
    )


def _add_fetch_sessions(readings: GatewayReadings, sessions: FetchSessionCache[NodeLink]) -> None:
    readings.gauge(
        "incremental_fetch_sessions",
        "Fetch sessions (Kafka: NumIncrementalFetchSessions).",
        lambda: len(sessions),
    )
    readings.gauge(
        "incremental_fetch_partitions_cached",
        "Partitions of fetch sessions (Kafka: NumIncrementalFetchPartitionsCached).",
        lambda: sessions.partitions,
    )
    readings.counter(
        "incremental_fetch_session_evictions",
        "Fetch sessions that made room for others (Kafka: IncrementalFetchSessionEvictions).",
        lambda: sessions.evictions,
    )


def _add_links(readings: GatewayReadings, links: NodeLinks) -> None:
    readings.gauge(
        "open_segment_files",
        "Files of nodes on this host that fetches are answered from.",
        lambda: links.open_segment_files,
    )
    readings.counter(
        "append_groups_sent",
        "Groups of batches for one partition that went to nodes in other processes.",
        lambda: links.groups_sent,
    )
    readings.counter(
        "fetches_sent",
        "Fetch requests, or parts of them, that went to nodes in other processes.",
        lambda: links.fetches_sent,
    )

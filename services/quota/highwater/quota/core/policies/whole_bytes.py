"""Divides whole bytes by weights, so that the parts add up exactly."""

from collections.abc import Mapping

from highwater.model.ids import NodeId


def divide(amount: int, weights: Mapping[NodeId, int]) -> dict[NodeId, int]:
    """Parts of `amount` by weight, largest remainders first; {} without weights.

    Ties are broken by node id, so that all quota services get the same result.
    """
    total = sum(weights.values())
    if total == 0:
        return dict.fromkeys(weights, 0)
    parts: dict[NodeId, int] = {}
    remainders: list[tuple[int, NodeId]] = []
    for node, weight in weights.items():
        parts[node], remainder = divmod(amount * weight, total)
        remainders.append((-remainder, node))
    left = amount - sum(parts.values())
    assert 0 <= left < max(1, len(parts))
    for _, node in sorted(remainders)[:left]:
        parts[node] += 1
    return parts

"""The gateway's links to all nodes, opened and closed as the image says."""

import asyncio
from collections.abc import Callable, Iterator
from typing import Protocol

from highwater.hop.ports import NodeLink
from highwater.model.cluster import ClusterImage, NodeState
from highwater.model.ids import NodeId
from highwater.model.steps import Steps
from highwater.runtime.tasks import TaskOwner


class MemberLink(NodeLink, Protocol):
    """A link to a node of a cluster, which can be fenced, and which can end."""

    @property
    def takes_appends(self) -> bool:
        """True while appends can be sent and answered."""
        ...

    def set_fenced(self, fenced: bool) -> None:
        """While the node is fenced, new requests are answered at once, except appends."""
        ...

    def ending_waits(self) -> Steps[None]:
        """Answers the requests that wait for a fenced node, except appends, in steps: there may be
        very many. Between these, everything may happen but `set_fenced`.
        """
        ...

    def expire(self, now_ms: int) -> None:
        """Answers appends whose deadline has passed."""
        ...

    async def close(self) -> None:
        """Ends the link; all requests that wait are answered."""
        ...


class OpenLink(MemberLink, Protocol):
    """A link to another process, which can break."""

    state: NodeState

    @property
    def open_segment_files(self) -> int:
        """The node's segment files that are open here."""
        ...

    @property
    def groups_sent(self) -> int:
        """Groups of appends that were written to it so far."""
        ...

    @property
    def fetches_sent(self) -> int:
        """Fetches that were written to it so far."""
        ...


class NodeLinks:
    """One link per node and incarnation. A node in this process is added by `add_local`, or by
    `add_member` if other nodes may lead what it leads.
    """

    def __init__(
        self,
        open_link: Callable[[NodeState], OpenLink],
        on_failure: Callable[[str, BaseException], None],
    ) -> None:
        self._open_link = open_link
        self._links: dict[NodeId, OpenLink] = {}
        self._local: dict[NodeId, NodeLink] = {}
        self._members: dict[NodeId, MemberLink] = {}
        """Those of `_local` that belong to a cluster of several nodes."""
        self._fenced: set[NodeId] = set()
        self._replaced: list[OpenLink] = []
        """Links to be closed; routes may still name them."""
        self._groups_sent = 0
        self._fetches_sent = 0
        """Both of links that are closed."""
        self._closing = TaskOwner(on_failure)

    def add_local(self, link: NodeLink) -> None:
        """Adds the only node, which is in this process."""
        self._local[link.node_id] = link

    def add_member(self, link: MemberLink) -> None:
        """Adds a node in this process that is one of several."""
        self._local[link.node_id] = link
        self._members[link.node_id] = link

    def link_to(self, node: NodeId) -> NodeLink | None:
        """The link to a node, or None."""
        return self._local.get(node) or self._links.get(node)

    @property
    def open_segment_files(self) -> int:
        """Segment files of nodes on this host that fetches were answered from."""
        return sum(link.open_segment_files for link in self._links.values())

    @property
    def groups_sent(self) -> int:
        """Groups of appends that went to nodes in other processes."""
        links = (*self._links.values(), *self._replaced)
        return self._groups_sent + sum(link.groups_sent for link in links)

    @property
    def fetches_sent(self) -> int:
        """Fetches that went to nodes in other processes."""
        links = (*self._links.values(), *self._replaced)
        return self._fetches_sent + sum(link.fetches_sent for link in links)

    def is_lost(self, link: NodeLink) -> bool:
        """True if no answer can be expected: the link is closed, fenced or broken."""
        present = self._members.get(link.node_id) or self._links.get(link.node_id)
        return present is not link or link.node_id in self._fenced or not present.takes_appends

    def apply(self, image: ClusterImage) -> bool:
        """Follows the image; True if any link changed. `routes_following` closes former links."""
        changed = False
        self._fenced = {node_id for node_id, state in image.nodes.items() if state.fenced}
        for node_id, link in list(self._links.items()):
            state = image.nodes.get(node_id)
            if state is None or state.incarnation != link.state.incarnation:
                del self._links[node_id]
                self._replaced.append(link)
                changed = True
        for node_id, state in image.nodes.items():
            if node_id not in self._links and node_id not in self._local and not state.fenced:
                self._links[node_id] = self._open_link(state)
                changed = True
        return changed

    def routes_following(self) -> Steps[None]:
        """Closes former links and ends requests to fenced nodes, once no route names them.

        All are fenced in the first step, so that nobody begins to wait any more.
        """
        former, present = list(self._replaced), list(self._present())
        for link in former:
            link.set_fenced(True)
        for node_id, member in present:
            member.set_fenced(node_id in self._fenced)
        for link in former:
            yield from link.ending_waits()
        for _, member in present:
            yield from member.ending_waits()
        for link in former:
            self._replaced.remove(link)
            self._groups_sent += link.groups_sent
            self._fetches_sent += link.fetches_sent
            self._closing.start(link.close(), name=f"close-link-{link.state.node_id}")

    def expire(self, now_ms: int) -> None:
        """Answers appends whose deadline has passed, at all nodes."""
        for _, link in self._present():
            link.expire(now_ms)

    def _present(self) -> Iterator[tuple[NodeId, MemberLink]]:
        yield from self._members.items()
        yield from self._links.items()

    async def close(self) -> None:
        """Closes all links."""
        links = [*self._members.values(), *self._links.values(), *self._replaced]
        self._groups_sent, self._fetches_sent = self.groups_sent, self.fetches_sent
        self._members.clear()
        self._links.clear()
        self._replaced.clear()
        await asyncio.gather(*(link.close() for link in links))
        await self._closing.close(timeout_s=3)

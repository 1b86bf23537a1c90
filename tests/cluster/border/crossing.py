"""Requests of one instance's client that reach for what another instance has, and what they must not do."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import count
from typing import Any

from highwater.kafka.messages.metadata import MetadataRequest
from highwater.kafka.registry import request_codec
from tests.cluster.border.answers import Broker, Known, Renaming, Secrets, differences
from tests.cluster.border.by_hand import BY_HAND
from tests.cluster.border.names import (
    ROLES,
    SEPARATORS,
    Names,
    everything,
    inner_names,
    nobodys,
)
from tests.cluster.border.owner import Owned, Owner
from tests.cluster.border.requests import Filling, Form, RequestBuilder, Served
from tests.cluster.instances import InstanceCluster
from tests.support.wire import ConnectionEnded, RawConnection

CLOSED = "closed"
"""In place of an answer: the gateway closed the connection."""
_NUMBERS = count(1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Probe:
    """One request, twice: with names of the other instance, and with names that nobody has."""

    what: str
    form: Form
    theirs: Names
    nobodys: Names
    own: tuple[Names, ...] = ()
    """Other names that are in them, or in answers."""


class Border:
    """A client of one instance, and the owner of what it must not reach."""

    def __init__(self, tenants: InstanceCluster, stranger: str, owner: Owner, said: Known) -> None:
        """`said` is what clients of `stranger` have ever named: that it may have, by the same names."""
        self._said = said
        self._builder = RequestBuilder(BY_HAND)
        self._owner = owner
        self._stranger = stranger
        self._tenants = tenants

    def cross(self, served: Served, probes: Iterator[Probe], owned: Owned) -> None:
        """Sends the probes; AssertionError if one tells something, or the owner's things are not as before."""
        before = self._owner.state(owned)
        secrets = Secrets(
            self._owner.instance,
            [names for each in self._owner.all for names in (each.classic, each.consumer)],
        )
        wrong: list[str] = []
        for probe in probes:
            lines = self._try(served, probe, secrets)
            wrong += [f"{served} {probe.what}: {line}" for line in lines]
        wrong += [f"changed {line}" for line in differences(before, self._owner.state(owned))]
        assert not wrong, "\n".join(wrong)

    def probes(self, served: Served, owned: Owned) -> Iterator[Probe]:
        """In every form, and with wildcards."""
        seen: set[bytes] = set()
        for flavour, theirs in _flavours(served, owned).items():
            unknown = like(theirs)
            for form in Form:
                body = self._body(served, form, theirs)
                if body not in seen:
                    seen.add(body)
                    what = f"{form.value} {flavour}"
                    yield Probe(what=what, form=form, theirs=theirs, nobodys=unknown)
        every = everything()
        yield Probe(what="wildcards", form=Form.NAMED, theirs=every, nobodys=every)

    def ask_about(self, served: Served, names: Names) -> None:
        """One request with these names."""
        self._ask(self._request(served, Form.NAMED, names), served.version)

    def mixed(self, served: Served, owned: Owned, own: Owner) -> Iterator[Probe]:
        """One name is the other instance's, and all else the client's own, made for each request."""
        for flavour, theirs in _flavours(served, owned).items():
            for role in self._roles(served, theirs):
                mine, also_mine = (getattr(own.make(), flavour) for _ in range(2))
                yield Probe(
                    what=f"{role} {flavour}",
                    form=Form.NAMED,
                    theirs=mine.with_role(role, theirs),
                    nobodys=also_mine.with_role(role, like(theirs)),
                    own=(mine, also_mine),
                )

    def odd(self, served: Served, owned: Owned) -> Iterator[Probe]:
        """Names as they might be inside, with what separates the instance from them."""
        theirs, unknown = owned.classic, like(owned.classic)
        forms = [Form.NAMED, Form.BLANK]
        if self._body(served, Form.NAMED, theirs) == self._body(served, Form.BLANK, theirs):
            forms.remove(Form.BLANK)
        for separator in SEPARATORS:
            for form in forms:
                yield Probe(
                    what=f"separator {separator!r} {form.value}",
                    form=form,
                    theirs=inner_names(theirs, self._owner.instance, separator),
                    nobodys=inner_names(unknown, self._owner.instance, separator),
                    own=(theirs, unknown),
                )

    def _roles(self, served: Served, theirs: Names) -> list[str]:
        """Those that change the request."""
        other = like(theirs)
        plain = self._body(served, Form.NAMED, theirs)
        return [
            role
            for role in ROLES
            if self._body(served, Form.NAMED, theirs.with_role(role, other)) != plain
        ]

    def _request(self, served: Served, form: Form, names: Names) -> Any:
        filling = Filling(names=names, form=form, version=served.version, node=self._tenants.node)
        return self._builder.build(served, filling)

    def _body(self, served: Served, form: Form, names: Names) -> bytes:
        request = self._request(served, form, names)
        return request_codec(served.api_key).encode_request(request, served.version)

    def _try(self, served: Served, probe: Probe, secrets: Secrets) -> list[str]:
        """What is wrong."""
        renaming = Renaming(probe.theirs, probe.nobodys, *probe.own, brokers=self._brokers())
        wrong: list[str] = []
        requests = [
            self._request(served, probe.form, names) for names in (probe.theirs, probe.nobodys)
        ]
        answers = []
        for request in requests:
            self._said.learn(request)
            answer = self._ask(request, served.version)
            wrong += [f"tells {secret!r}" for secret in secrets.told(answer, self._said)]
            answers.append(renaming.plain(answer))
        # The second of two equal requests may well find nothing left to do.
        return wrong + list(differences(*answers) if requests[0] != requests[1] else ())

    def _brokers(self) -> set[Broker]:
        """Those of the client's own instance."""
        told = self._ask(MetadataRequest([]), 0)
        return {(broker.node_id, broker.host, broker.port) for broker in told.brokers}

    def _ask(self, request: Any, version: int) -> Any:
        with RawConnection.to(self._tenants.bootstrap(self._stranger)) as client:
            try:
                return client.ask(request, version)
            except ConnectionEnded:
                return CLOSED


def _flavours(served: Served, owned: Owned) -> dict[str, Names]:
    """A set with the group of each protocol, if the request names a group."""
    if served.names() & {"group", "member"}:
        return {"classic": owned.classic, "consumer": owned.consumer}
    return {"classic": owned.classic}


def like(names: Names) -> Names:
    """Names that nobody has, of the same form."""
    unknown = nobodys(next(_NUMBERS))
    return replace(unknown, generation=names.generation, producer_epoch=names.producer_epoch)

"""The controllers and their followers as a quorum."""

import pytest

from highwater.controller.core import quorum
from highwater.controller.core.liveness import Session
from highwater.controller.core.quorum import (
    CONTROLLER_IDS,
    GATEWAY_IDS,
    IDS,
    Controller,
    Moment,
    Quorum,
    Replica,
    describe_quorum,
    replica_ids,
)
from highwater.controller.members.members import NODE_ID_MAX
from highwater.model.ids import GatewayId, NodeId

NOW = Moment(monotonic_ms=1_000, wall_ms=500_000)
CONTROLLERS = [Controller(name=name, address=f"{name}:9190") for name in ("c1", "c2", "c3")]
IDS_OF = replica_ids(("c1", "c2", "c3"), CONTROLLER_IDS)


def described(
    nodes: dict[NodeId, Session] | None = None,
    gateways: dict[GatewayId, Session] | None = None,
    *,
    controllers: list[Controller] = CONTROLLERS,
    leader: str = "c2",
) -> Quorum:
    return describe_quorum(
        controllers,
        nodes or {},
        gateways or {},
        leader=leader,
        controller_epoch=7,
        revision=52,
        now=NOW,
    )


def session(revision: int, reported_ms: int | None, caught_up_ms: int | None = None) -> Session:
    return Session(
        epoch=3,
        heard_ms=999,
        applied_revision=revision,
        reported_ms=reported_ms,
        caught_up_ms=caught_up_ms,
    )


def test_the_leader_comes_first_and_knows_everything_now() -> None:
    told = described()
    assert (told.leader_id, told.controller_epoch, told.revision) == (IDS_OF["c2"], 7, 52)
    assert told.voters[0] == Replica(
        replica_id=IDS_OF["c2"],
        name="c2",
        address="c2:9190",
        revision=52,
        reported_ms=500_000,
        caught_up_ms=500_000,
    )
    assert [voter.replica_id for voter in told.voters[1:]] == sorted((IDS_OF["c1"], IDS_OF["c3"]))
    assert told.observers == ()


def test_standbys_read_the_same_store_and_say_nothing() -> None:
    for standby in described().voters[1:]:
        assert (standby.revision, standby.reported_ms, standby.caught_up_ms) == (52, -1, -1)


def test_members_with_what_they_reported_last() -> None:
    told = described(
        {NodeId(3): session(52, 990, 990), NodeId(1): session(50, 400, 300)},
        {GatewayId("g"): session(51, 700)},
    )
    assert told.observers == (
        Replica(replica_id=1, revision=50, reported_ms=499_400, caught_up_ms=499_300),
        Replica(replica_id=3, revision=52, reported_ms=499_990, caught_up_ms=499_990),
        Replica(
            replica_id=replica_ids(["g"], GATEWAY_IDS)["g"],
            name="g",
            revision=51,
            reported_ms=499_700,
            caught_up_ms=-1,
        ),
    )


def test_a_member_that_has_not_reported_is_unknown() -> None:
    [observer] = described({NodeId(1): session(0, None)}).observers
    assert observer == Replica(replica_id=1, revision=-1, reported_ms=-1, caught_up_ms=-1)


def test_an_id_does_not_change_when_others_come_and_go() -> None:
    left = described(controllers=CONTROLLERS[1:], leader="c3")
    assert left.leader_id == IDS_OF["c3"]
    assert {voter.name: voter.replica_id for voter in left.voters} == {
        name: IDS_OF[name] for name in ("c2", "c3")
    }


def test_ids_of_nodes_controllers_and_gateways_never_meet() -> None:
    names = [f"n-{number}" for number in range(200)]
    controllers = set(replica_ids(names, CONTROLLER_IDS).values())
    gateways = set(replica_ids(names, GATEWAY_IDS).values())
    assert len(controllers) == len(gateways) == 200
    assert min(controllers) > NODE_ID_MAX
    assert max(controllers) < GATEWAY_IDS <= min(gateways)
    assert max(gateways) < GATEWAY_IDS + IDS


def test_names_that_hash_to_the_same_number(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(quorum, "IDS", 3)
    assert sorted(replica_ids("cab", 10).values()) == [10, 11, 12]
    assert replica_ids("cab", 10) == replica_ids("bca", 10)

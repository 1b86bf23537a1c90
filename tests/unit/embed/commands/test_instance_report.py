from dataclasses import replace

from highwater.embed.clients.instances import KnownInstance
from highwater.embed.commands.instance_report import (
    COLUMNS,
    LIMITS,
    as_json,
    detail_rows,
    list_row,
    moment,
)
from highwater.model.ids import DEFAULT_INSTANCE, InstanceId
from highwater.model.instances import InstanceListener, InstanceState

SHOP = KnownInstance(
    state=InstanceState(
        instance=InstanceId("shop"),
        listeners=(
            InstanceListener(port=19_000, advertised_host="kafka.example"),
            InstanceListener(port=19_500, listener="secure", advertised_port=9093),
        ),
        allowed_networks=("10.0.0.0/8", "192.0.2.7/32"),
        storage_bytes=5,
        partitions_max=6,
    ),
    topics=1,
    partitions=3,
    users=2,
    acls=4,
)


def test_a_row_of_the_list():
    assert dict(zip(COLUMNS, list_row(SHOP), strict=True)) == {
        "instance": "shop",
        "state": "active",
        "ports": (
            "19000 on default, told as kafka.example:19000, 19500 on secure, told as the host:9093"
        ),
        "clients from": "10.0.0.0/8, 192.0.2.7/32",
        "topics": "1",
        "partitions": "3 of 6",
        "users": "2",
    }


def test_a_plain_instance():
    plain = KnownInstance(state=InstanceState(instance=DEFAULT_INSTANCE), partitions=3)
    row = list_row(plain)
    assert row == ("default", "active", "the gateways' own", "anywhere", "0", "3", "0")
    nowhere = replace(plain.state, instance=InstanceId("x"), allowed_networks=())
    assert list_row(replace(plain, state=nowhere))[2:4] == ("none", "nowhere")


def test_a_deleted_one_says_when_it_goes():
    state = replace(SHOP.state, purge_at_ms=1_800_000_000_000)
    assert list_row(replace(SHOP, state=state))[1] == "deleted, purged 2027-01-15T08:00:00Z"
    told = as_json(replace(SHOP, state=state))
    assert (told["state"], told["purge_at"]) == ("deleted", "2027-01-15T08:00:00Z")


def test_everything_of_one():
    rows = dict(detail_rows(SHOP))
    assert rows["limit of storage"] == "5 B"
    assert rows["limit of partitions"] == "6"
    assert rows["limit of groups"] == "unlimited"
    assert rows["deletion"] == "allowed"
    assert rows["ACLs"] == "4"
    protected = replace(SHOP, state=replace(SHOP.state, delete_protection=True))
    assert dict(detail_rows(protected))["deletion"] == "refused"


def test_whom_tokens_and_certificates_name():
    rows = dict(detail_rows(SHOP))
    assert (rows["tokens"], rows["certificates"]) == ("refused", "name nobody")
    assert rows["without an ACL"] == "as the gateways say"
    state = replace(SHOP.state, token_audience="a", certificates=True, open_if_no_acl=False)
    rows = dict(detail_rows(replace(SHOP, state=state)))
    assert (rows["tokens"], rows["certificates"]) == ("of audience a", "name users")
    assert rows["without an ACL"] == "nobody"
    told = as_json(replace(SHOP, state=state))
    assert (told["token_audience"], told["certificates"], told["open_if_no_acl"]) == (
        "a",
        True,
        False,
    )
    default = replace(SHOP, state=InstanceState(instance=DEFAULT_INSTANCE))
    assert "tokens" not in dict(detail_rows(default))


def test_json():
    told = as_json(SHOP)
    assert told["listeners"] == [
        {
            "listener": "default",
            "port": 19_000,
            "advertised_host": "kafka.example",
            "advertised_port": None,
        },
        {"listener": "secure", "port": 19_500, "advertised_host": None, "advertised_port": 9093},
    ]
    assert told["limits"] == {**dict.fromkeys(LIMITS), "storage_bytes": 5, "partitions_max": 6}
    assert told["allowed_networks"] == ["10.0.0.0/8", "192.0.2.7/32"]
    assert (told["topics"], told["partitions"], told["users"], told["acls"]) == (1, 3, 2, 4)
    assert told["purge_at"] is None


def test_moments():
    assert moment(0) == "1970-01-01T00:00:00Z"

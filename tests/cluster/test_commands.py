"""The command line against a running broker."""

from __future__ import annotations

import pytest

from tests.cluster.runner import Up, run

pytestmark = pytest.mark.parametrize("up", ["embedded"], indirect=True)


def test_topic_commands(up: Up):
    where = ("--bootstrap", up.bootstrap)
    created = run(
        "topic", "create", "orders", "--partitions", "3", "--config", "retention.ms=60000", *where
    )
    assert (created.returncode, created.stdout) == (0, "created topic orders with 3 partitions\n")

    again = run("topic", "create", "orders", *where)
    assert again.returncode == 1
    assert again.stderr.startswith("highwater: topic orders: TOPIC_ALREADY_EXISTS: ")
    assert again.stderr.count("\n") == 1

    listed = run("topic", "list", *where)
    assert listed.returncode == 0
    rows = [line.split("│")[1:4] for line in listed.stdout.splitlines() if "│" in line]
    assert [[cell.strip() for cell in row] for row in rows] == [["orders", "3", "1"]]

    described = run("topic", "describe", "orders", *where)
    assert described.returncode == 0
    assert described.stdout.count("│") == 3 * 6
    assert "retention.ms=60000" in described.stdout.splitlines()

    deleted = run("topic", "delete", "orders", *where)
    assert (deleted.returncode, deleted.stdout) == (0, "deleted topic orders\n")
    for command in ("describe", "delete"):
        missing = run("topic", command, "orders", *where)
        assert missing.returncode == 1
        assert missing.stderr.startswith("highwater: topic orders: UNKNOWN_TOPIC_OR_PARTITION: ")


def test_limits_are_set_and_shown(up: Up):
    where = ("--data-dir", str(up.data_dir))
    changed = run("quota", "set", "--produce-bytes-per-second", "1000", *where)
    assert changed.stdout == "default: produce 1000 B/s, consume unlimited, storage unlimited\n"
    changed = run("quota", "set", "--consume-bytes-per-second", "2000", *where)
    assert changed.stdout == "default: produce 1000 B/s, consume 2000 B/s, storage unlimited\n"
    changed = run(
        *("quota", "set", "--produce-bytes-per-second", "none", "--storage-bytes", "9000"), *where
    )
    assert changed.stdout == "default: produce unlimited, consume 2000 B/s, storage 9000 B\n"
    address = (up.data_dir / "controller.address").read_text()
    refused = run("quota", "show", "--controller", address)
    assert refused.returncode == 2
    assert "the call does not show the cluster's secret; --secret-file" in refused.stderr
    secret = str(up.data_dir / "inner.secret")
    shown = run("quota", "show", "--controller", address, "--secret-file", secret)
    assert shown.returncode == 0
    (row,) = [line for line in shown.stdout.splitlines() if "default" in line]
    cells = [cell.strip() for cell in row.split("│")[1:5]]
    assert cells == ["default", "unlimited", "2000 B/s", "9000 B"]

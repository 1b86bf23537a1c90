"""Which peers run which rows, and the contents of their tables."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import subprocess
import sys
import time

import pytest

from tests.bench import report
from tests.bench.__main__ import DEFAULT_ROWS, GROUP_KINDS, add_listeners, main, make_plans
from tests.bench.peers import (
    baseline_of,
    default_peers,
    limit_of,
    make_breakable_peer,
    make_peer,
)
from tests.bench.session import Row, Sample, Session, Settings, topic_configs
from tests.bench.startup import Idle, Startup
from tests.bench.workloads import Security, Workload, all_workloads, select

NAMES = ("embedded", "services", "services3", "kafka", "kafka3")


def plans_of(names: tuple[str, ...], pattern: str | None) -> list[tuple[list[str], set[str]]]:
    rows = () if pattern is None else select([pattern])
    return [
        ([peer.name for peer in plan.peers], {row.name.split("/")[1] for row in plan.workloads})
        for plan in make_plans([make_peer(name) for name in names], rows)
    ]


def test_rows_run_on_peers_with_as_many_nodes_as_they_need() -> None:
    one, three = ["embedded", "services", "kafka"], ["services3", "kafka3"]
    assert plans_of(NAMES, "*/rf3/*") == [(three, {"rf3"})]
    assert plans_of(NAMES, "*/p12/plain") == [(one, {"p12"})]
    assert plans_of(NAMES, "*") == [(one, {"p1", "p12", "p1000"}), (three, {"rf3"})]
    assert plans_of(("kafka",), "*/rf3/*") == []
    assert plans_of(("services", "kafka3"), None) == [(["services"], set()), (["kafka3"], set())]


def test_the_limit_also_runs_rows_of_three_nodes_beside_those_that_have_them() -> None:
    one = (["limit", "services"], {"p1", "p12", "p1000"})
    three = (["services3", "limit"], {"rf3"})
    assert plans_of(("services3", "limit", "services"), "*") == [one, three]
    assert plans_of(("services3", "limit"), "*/rf3/*") == [three]
    # Not by itself, and its start and memory are measured once.
    assert plans_of(("limit", "services"), "*") == [one]
    assert plans_of(("limit",), "*/rf3/*") == []
    assert plans_of(("services3", "limit"), None) == [(["limit"], set()), (["services3"], set())]


def test_without_names_the_rows_choose_the_peers() -> None:
    assert default_peers(()) == ("embedded", "combined", "services")
    assert default_peers(select(["*/p12/plain"])) == ("embedded", "combined", "services")
    assert default_peers(select(["*/rf3/*"])) == ("combined3", "services3")
    assert default_peers(all_workloads()) == (
        "embedded", "combined", "services", "combined3", "services3",
    )  # fmt: skip


def test_peers_that_fit_no_row_end_the_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--rows", "*/rf3/*", "--peers", "kafka,services"]) == 2
    assert "no peer has as many nodes" in capsys.readouterr().err
    assert main(["--peers", "kafka2"]) == 2
    assert "unknown peer 'kafka2'" in capsys.readouterr().err
    with pytest.raises(ValueError, match="no peer whose nodes can be broken"):
        make_breakable_peer("external:127.0.0.1:9092")


def test_an_external_broker_reports_the_processor_time_of_the_given_pid() -> None:
    """The listening process may be one of several, and a child of the named one."""
    command = [sys.executable, "-c", "while True: pass"]
    with subprocess.Popen(command) as busy:
        try:
            with_pid = make_peer(f"external:127.0.0.1:1:pid={busy.pid}")
            without = make_peer("external:127.0.0.1:1")
            assert (with_pid.bootstrap, with_pid.name) == ("127.0.0.1:1", without.name)
            for peer in (with_pid, without):
                peer.prepare()
            assert without.cpu_seconds() is None  # No process listens there.
            deadline = time.monotonic() + 10
            while not with_pid.cpu_seconds() and time.monotonic() < deadline:
                time.sleep(0.01)
            assert with_pid.cpu_seconds()
            assert with_pid.resident_bytes()
        finally:
            busy.kill()
    with pytest.raises(RuntimeError, match=f"no process {busy.pid}"):
        make_peer(f"external:127.0.0.1:1:pid={busy.pid}").prepare()


def test_options_of_an_external_broker() -> None:
    for text in ("external:h:1:no-metadata:pid=7", "external:h:1:pid=7:no-metadata"):
        peer = make_peer(text)
        assert (peer.bootstrap, peer.no_metadata) == ("h:1", True)
    assert not make_peer("external:h:1:pid=7").no_metadata
    assert make_peer("external:h:1:pid=7").nodes == 1
    assert make_peer("external:h:1:pid=7:nodes=3").nodes == 3
    for options in ("", ":1:pid=x", ":1:pid=7:pid=8", ":1:nodes=x", ":1:x"):
        with pytest.raises(ValueError, match="unknown peer"):
            make_peer(f"external:h{options}")


def test_replicated_rows_wait_for_all_in_sync_replicas() -> None:
    replicated = select(["*/rf3/*"])
    assert len(replicated) == 7
    assert {(row.replication, row.acks, row.nodes, row.partitions) for row in replicated} == {
        (3, -1, 3, 12)
    }
    assert {topic_configs(row)["min.insync.replicas"] for row in replicated} == {"2"}
    others = [row for row in all_workloads() if row not in replicated]
    assert {(row.replication, row.acks, row.nodes) for row in others if not row.transactions} == {
        (1, 1, 1)
    }
    assert not any("min.insync.replicas" in topic_configs(row) for row in others)


def _row(workload: Workload, **values: float) -> Row:
    row = Row(workload)
    for peer, value in values.items():
        row.samples[peer] = [
            Sample(
                value=value, p50_us=value, p99_us=2 * value, requests_per_s=1.0, mb_per_s=1.0,
                server_cpu_us=None, server_faults=None, brokers=3,
            )
        ]  # fmt: skip
    return row


def test_each_group_has_its_own_kafka() -> None:
    results = report.Results(command="c", settings=Settings())
    for kind, ours, kafka in zip(GROUP_KINDS, ("services", "services3"), ("kafka", "kafka3"),
                                 strict=True):  # fmt: skip
        peers = [make_peer(ours), make_peer(kafka)]
        group = report.Group(
            title=kind.title,
            section=kind.section,
            peers=(ours, kafka),
            baseline=baseline_of(peers),
        )
        results.groups.append(group)
        results.versions |= {ours: "ours", kafka: "theirs"}
    one, three = results.groups
    one.rows.append(_row(select(["produce-16k*/p12/plain"])[0], services=300.0, kafka=200.0))
    three.rows.append(_row(select(["latency*/rf3/*"])[0], services3=900.0, kafka3=300.0))
    three.rows.append(_row(select(["produce-1m*/rf3/plain"])[0], services3=90.0, kafka3=100.0))
    header, lines = report.row_table(three)
    assert header[:5] == ["row", "unit", "services3", "services3 / kafka3", "kafka3"]
    assert [line[3] for line in lines] == ["3.00 (<= 1.8: missed)", "0.90 (>= 1.15: missed)"]
    assert report.row_table(one)[1][0][3] == "1.50 (>= 1.05: reached)"
    text = report.markdown(results, three)
    assert "- services3: ours" in text
    assert "latency-200b-500rps/rf3/plain" in text
    assert "produce-16k" not in text
    assert [row["group"] for row in report.as_json(results)["rows"]] == [
        "one node",
        *["three nodes, replication factor 3, acks=all"] * 2,
    ]
    assert [table.title for table in report.rich_tables(results)][::2] == [
        f"Apache Kafka and Highwater in turns, {group.title}" for group in results.groups
    ]


def test_transactions_are_a_part_of_what_runs_by_default() -> None:
    names = {row.name for row in select(DEFAULT_ROWS.split(","))}
    transactional = select(["txn*"])
    assert [row.name for row in transactional] == [
        "txn-200b-100x1/p12/commit",
        "txn-200b-100x50/p12/commit",
        "txn-16k-100x1/p12/commit",
        "txn-16k-100x50/p12/commit",
        "txn-fetch-64k-10x1/p12/committed",
        "txn-fetch-1m-4x1/p12/committed",
    ]
    assert names >= {row.name for row in transactional}
    assert {(row.acks, row.nodes) for row in transactional} == {(-1, 1)}
    # They have topics of their own, of which the readers share one.
    assert len({row.topic for row in all_workloads() if row.transactions}) == 5
    assert not {row.topic for row in transactional} & {
        row.topic for row in all_workloads() if not row.transactions
    }


def test_rows_of_transactions_are_preceded_by_some() -> None:
    one, three = GROUP_KINDS
    transactional, plain = select(["txn-16k-100x1/*"]), select(["produce-1m-4x4/p12/plain"])
    assert [row.name for row in one.warm_up(plain)] == [
        "produce-16k-10x8/p12/plain", "produce-200b-50x8/p12/plain",
    ]  # fmt: skip
    assert {row.name for row in one.warm_up(transactional + plain)} == {
        "produce-16k-10x8/p12/plain", "produce-200b-50x8/p12/plain", "txn-200b-100x50/p12/commit",
    }  # fmt: skip
    assert not any(row.transactions for row in three.warm_up(select(["produce*/rf3/plain"])))


def test_a_commit_is_judged_by_its_rate_and_its_latency() -> None:
    group = report.Group(
        title="t", section=GROUP_KINDS[0].section, peers=("embedded", "services", "kafka", "limit"),
        baseline="kafka", limit="limit",
    )  # fmt: skip
    row = _row(
        select(["txn-200b-100x50/p12/commit"])[0], embedded=300.0, services=90.0, kafka=200.0
    )
    row.samples["embedded"][0] = dataclasses.replace(
        row.samples["embedded"][0], p50_us=110.0, retries=0.254, transaction_p50_us=1234.0
    )
    row.samples["kafka"][0] = dataclasses.replace(row.samples["kafka"][0], p50_us=100.0)
    group.rows.append(row)
    header, (line,) = report.row_table(group)
    found = dict(zip(header, line, strict=True))
    assert found["unit"] == "txn/s"
    assert found["embedded / kafka"] == "1.50 (>= 1: reached); p50 1.10 (<= 1: missed)"
    assert found["services / kafka"] == "0.45"
    # The limit has no transactions, and so no samples.
    assert (found["limit"], found["embedded / limit"]) == ("-", "-")
    assert line[-4] == "110 / 600 / - / - / p50 of all 1,234, 0.25 retries"


def test_a_broker_without_transactions_does_not_run_them() -> None:
    row = select(["txn-16k-100x1/*"])[0]
    told: list[str] = []
    limit = make_peer("limit")  # Not started: whatever is done with it fails.
    found = Session([limit], Settings(), told.append).measure(row)
    assert (found.samples, found.failures, told) == ({}, {}, [])


def test_rows_with_tls_and_logins_run_by_default_and_have_targets_at_16_kib() -> None:
    rows = [row for row in all_workloads() if row.security is not Security.PLAINTEXT]
    assert {row.name: dict(row.targets) for row in rows} == {
        "produce-16k-10x8/p12/tls": {"embedded": 1.0},
        "fetch-16k-10x1/p12/tls": {"embedded": 1.0},
        "fetch-1m-4x1/p12/tls": {},
        "produce-16k-10x8/p12/sasl": {"embedded": 1.0},
        "fetch-16k-10x1/p12/sasl": {"embedded": 1.0},
    }
    assert all(row.name.endswith(f"/{row.security.value}") for row in rows)
    assert {row.name for row in select(DEFAULT_ROWS.split(","))} >= {row.name for row in rows}
    # What is read needs no topic of its own, what is written has one.
    assert {row.topic for row in rows if row.fetch} == {"bench-fetch-p12"}
    assert len({row.topic for row in all_workloads() if "produce-16k-10x8/p12" in row.name}) == 6


def test_a_broker_without_tls_does_not_run_such_rows() -> None:
    told: list[str] = []
    limit = make_peer("limit")  # Not started: whatever is done with it fails.
    for row in select(["*/tls", "*/sasl"]):
        found = Session([limit], Settings(), told.append).measure(row)
        assert (found.samples, found.failures, told) == ({}, {}, [])


def test_peers_have_only_the_listeners_that_rows_need() -> None:
    names = ("embedded", "kafka", "limit")

    def listeners_of(pattern: str) -> dict[str, tuple[Security, ...]]:
        (plan,) = make_plans([make_peer(name) for name in names], select(pattern.split(",")))
        with contextlib.ExitStack() as stack:
            add_listeners(plan, stack)
            return {
                peer.name: peer.listeners.securities
                for peer in plan.peers
                if peer.listeners is not None
            }

    assert listeners_of("*/p12/plain") == {}
    tls, login = (Security.TLS,), (Security.LOGIN,)
    assert listeners_of("*/p12/plain,fetch*/tls") == {"embedded": tls, "kafka": tls}
    assert listeners_of("*/tls,*/sasl") == {"embedded": tls + login, "kafka": tls + login}
    with pytest.raises(LookupError, match="kafka has no listener for tls"):
        make_peer("kafka").target("t", Security.TLS)


def test_processor_time_and_page_faults_stand_beside_the_latencies() -> None:
    group = report.Group(
        title="t", section=GROUP_KINDS[0].section, peers=("combined",), baseline=None
    )
    row = _row(select(["fetch-1m*/p12/plain"])[0], combined=1_000.0)
    group.rows.append(row)
    header, (line,) = report.row_table(group)
    assert (
        header[-1]
        == "combined: p50 us / p99 us / server CPU us per request / page faults per request"
    )
    assert line[-1] == "1,000 / 2,000 / - / -"
    known = [
        dataclasses.replace(row.samples["combined"][0], server_cpu_us=cpu_us, server_faults=faults)
        for cpu_us, faults in ((300.0, 0.5), (310.0, 0.254), (320.0, 0.25))
    ]
    row.samples["combined"][:] = known
    assert report.row_table(group)[1][0][-1] == "1,000 / 2,000 / 310.0 / 0.25"
    saved = report.as_json(report.Results(command="c", settings=Settings(), groups=[group]))
    assert saved["rows"][0]["samples"]["combined"][1]["server_faults"] == 0.254


def test_idempotent_services_are_compared_with_what_they_do_without_sequence_numbers() -> None:
    group = report.Group(
        title="t", section=GROUP_KINDS[0].section, peers=("combined", "services", "kafka"),
        baseline="kafka",
    )  # fmt: skip
    load = "produce-1m-4x4/p12"
    plain, idempotent = select([f"{load}/plain", f"{load}/idempotent"])
    group.rows.append(_row(idempotent, combined=70.0, services=80.0, kafka=100.0))

    def found() -> dict[str, str]:
        header, lines = report.row_table(group)
        return dict(zip(header, lines[0], strict=True))

    assert found()["services / kafka"] == "0.80 (>= 0.9 of plain: not measured)"
    # The order of the rows does not matter, and the other peers' plain ratios neither.
    group.rows.append(_row(plain, combined=95.0, services=89.0, kafka=100.0))
    assert found()["services / kafka"] == "0.80 (>= 0.9 of plain 0.89: missed)"
    assert found()["combined / kafka"] == "0.70"
    group.rows[1] = _row(plain, services=88.0, kafka=100.0)
    assert found()["services / kafka"] == "0.80 (>= 0.9 of plain 0.88: reached)"
    group.rows[1] = Row(plain, failures={"services": "it broke"})
    assert found()["services / kafka"] == "0.80 (>= 0.9 of plain: not measured)"


def test_targets_of_idempotent_rows() -> None:
    rows = {row.name: row for row in all_workloads()}
    for row in rows.values():
        targets = set(row.targets)
        match row.name.split("/"):
            case [_, "p12", "idempotent"]:
                assert targets == {"embedded"}
                assert row.plain_shares["services"] == 0.9
            case [_, "rf3", "idempotent"]:
                assert targets == {"services3"}
                assert row.plain_shares["services3"] == 0.9
            case [_, "p12", "commit" | "committed"]:
                assert targets == {"embedded", "combined"}
                continue
            case [_, "p12" | "rf3", "plain"]:
                assert {"embedded", "combined", "services"} <= targets or {
                    "combined3", "services3",
                } == targets  # fmt: skip
                assert not row.plain_shares
            case [_, "p12", "tls" | "sasl"]:
                assert targets <= {"embedded"}
                continue
            case _:
                assert not targets
                assert not row.plain_shares
        assert not rows[row.plain_name].idempotent


@pytest.mark.parametrize("names", [("embedded", "limit"), ("embedded", "kafka", "limit")])
def test_ratios_to_the_limit_stand_beside_those_to_kafka(names: tuple[str, ...]) -> None:
    peers = [make_peer(name) for name in names]
    group = report.Group(
        title="t",
        section=GROUP_KINDS[0].section,
        peers=names,
        baseline=baseline_of(peers),
        limit=limit_of(peers),
    )
    values = {"embedded": 300.0, "kafka": 200.0, "limit": 1200.0}
    produce = _row(select(["produce-16k-10x8/p12/plain"])[0], **{n: values[n] for n in names})
    broken_row = Row(produce.workload, failures={"limit": "it broke"})
    broken_row.samples["embedded"] = produce.samples["embedded"]
    group.rows.extend([produce, broken_row])
    header, (line, broken) = report.row_table(group)
    found = dict(zip(header, line, strict=True))
    assert found["embedded / limit"] == "0.25"
    assert dict(zip(header, broken, strict=True))["embedded / limit"] == "-"
    assert dict(zip(header, broken, strict=True))["limit"] == "failed"
    if "kafka" in names:
        assert header[3:5] == ["embedded / kafka", "embedded / limit"]
        # Targets are ratios to Kafka.
        assert found["embedded / kafka"] == "1.50 (>= 1.4: reached)"
        assert (found["kafka / limit"], found["limit / kafka"]) == ("0.17", "6.00")
    else:
        assert not any("kafka" in name for name in header)
    results = report.Results(command="c", settings=Settings(), groups=[group])
    results.versions |= {name: name for name in names}
    assert "| embedded / limit |" in report.markdown(results, group)


def test_idleness_stands_beside_the_time_of_a_start() -> None:
    group = report.Group(
        title="t", section=GROUP_KINDS[0].section, peers=("embedded", "combined"), baseline=None
    )
    idle = Idle(resident_bytes=80_000_000, cpu_ms_per_s=4.25)
    unknown = Idle(resident_bytes=None, cpu_ms_per_s=None)
    results = report.Results(command="c", settings=Settings(), groups=[group])
    results.startups["embedded"] = Startup(first_ack_s=1.2, idle=idle)
    header, (measured, not_measured) = report.startup_table(results, group)
    found = dict(zip(header, measured, strict=True))
    assert found["resident idle, MB"] == "80 (< 130: reached)"
    assert found["CPU idle, ms per s"] == "4.2"
    assert not_measured == ["combined", "-", "-", "-", "-"]
    results.startups["combined"] = Startup(first_ack_s=1.2, idle=unknown)
    assert report.startup_table(results, group)[1][1] == ["combined", "1.20", "-", "-", "-"]
    saved = json.loads(json.dumps(report.as_json(results)))
    assert saved["startups"]["embedded"]["idle"]["cpu_ms_per_s"] == 4.25

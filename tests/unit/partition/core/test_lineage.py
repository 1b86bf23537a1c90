"""A node's starts and ends, and whose records its directories are known to hold afterwards."""

from highwater.partition.core.lineage import (
    INCARNATIONS_MAX,
    NOTHING,
    Lineage,
    begin,
    closed,
    failed,
    registered,
)


def started(found: Lineage, boot_id: str, incarnation: str) -> Lineage:
    return begin(found, boot_id=boot_id, incarnation=incarnation)[1]


def evidence(found: Lineage, boot_id: str = "boot") -> tuple[str, ...]:
    return begin(found, boot_id=boot_id, incarnation="next")[0]


A = registered(started(NOTHING, "boot", "a"), incarnation="a")


def test_a_killed_process_on_the_same_kernel() -> None:
    assert evidence(A) == ("a",)


def test_killed_before_it_knew_that_it_was_registered() -> None:
    assert evidence(started(A, "boot", "b")) == ("a", "b")


def test_a_power_cut_is_a_gap() -> None:
    assert evidence(A, "boot 2") == ()
    after = started(A, "boot 2", "b")
    assert evidence(after, "boot 2") == ("b",), "not a, whatever b did"
    assert evidence(closed(after), "boot 3") == ("b",)


def test_an_unknown_kernel_proves_nothing() -> None:
    assert evidence(registered(started(NOTHING, "", "a"), incarnation="a"), "") == ()


def test_an_orderly_end_survives_a_reboot() -> None:
    assert evidence(closed(A), "boot 2") == ("a",)
    assert not started(closed(A), "boot 2", "b").clean


def test_a_failed_write_is_a_gap_whatever_comes_after() -> None:
    assert evidence(failed(A)) == ()
    assert evidence(closed(failed(A))) == ()
    assert evidence(registered(failed(A), incarnation="a")) == (), "a late answer heals nothing"


def test_another_disk() -> None:
    assert evidence(NOTHING) == ()


def test_starts_without_registration_are_bounded() -> None:
    lineage = A
    for number in range(2 * INCARNATIONS_MAX):
        lineage = started(lineage, "boot", str(number))
    assert len(lineage.incarnations) == INCARNATIONS_MAX
    assert "a" not in lineage.incarnations

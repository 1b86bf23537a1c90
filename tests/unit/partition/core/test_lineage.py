"""A node's starts and ends, and whose records its directories are known to hold afterwards."""

from dataclasses import replace

import pytest

from highwater.partition.core.lineage import (
    INCARNATIONS_MAX,
    NOTHING,
    UNKNOWN_VOLUME,
    DirectoryRecord,
    Lineage,
    Volume,
    agree,
    begin,
    closed,
    failed,
    lost,
    registered,
    survived,
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


# ---- several directories ----


def record(
    directory: str, lineage: Lineage = A, *, all_of: str = "xy", home: str = "8:17"
) -> DirectoryRecord:
    return DirectoryRecord(
        directory=directory, directories=tuple(all_of), lineage=lineage, home=home
    )


def together(
    *found: DirectoryRecord | None, unreadable: int = 0, home: str = "8:17"
) -> tuple[str, ...]:
    homes = [home for _ in found]
    agreed, _ = agree(found, homes=homes, unreadable=unreadable, boot_id="boot")
    return evidence(agreed)


def test_what_all_directories_hold_counts() -> None:
    assert together(record("x"), record("y")) == ("a",)
    assert together(record("x"), record("y", failed(A))) == (), "a lost something in y"
    assert together(record("x"), record("y", started(A, "boot", "b"))) == ("a",)


def test_a_start_that_one_directory_missed() -> None:
    without_y = registered(started(A, "boot", "b"), incarnation="b")
    assert together(record("x", without_y), record("y")) == ()


def test_each_directory_by_the_kernel_that_wrote_to_it() -> None:
    other_kernel = started(NOTHING, "boot 0", "a")
    assert together(record("x"), record("y", other_kernel)) == ()
    assert together(record("x"), record("y", closed(other_kernel))) == ("a",)


def test_an_orderly_end_with_an_unknown_kernel() -> None:
    x, y = record("x", closed(A)), record("y", closed(A))
    agreed, _ = agree([x, y], homes=["", ""], unreadable=0, boot_id="")
    assert evidence(agreed, "") == ("a",)


def test_a_directory_that_was_emptied_or_taken_away() -> None:
    assert together(record("x"), None) == ()
    assert together(record("x")) == ()
    assert together(None) == ()
    assert together() == ()


def test_a_directory_that_was_added() -> None:
    assert together(record("x"), record("y"), None) == ("a",)


def test_a_directory_that_cannot_be_read_is_offline_and_still_known() -> None:
    assert together(record("x"), unreadable=1) == ("a",)
    known = agree([record("x")], homes=["8:17"], unreadable=1, boot_id="boot")[1]
    assert known == ("y",)
    assert together(record("x"), None, unreadable=1) == (), "which of them is y?"
    assert together(record("x", all_of="xyz"), unreadable=1) == ()


def test_a_copy_of_a_directory() -> None:
    assert together(record("x"), record("y"), record("y")) == ()


def test_a_directory_that_was_put_back_from_a_copy_made_while_its_node_ran() -> None:
    x, y = record("x"), record("y", home="8:18")
    assert agree([x, y], homes=["8:17", "8:18"], unreadable=0, boot_id="boot")[0].incarnations
    assert together(x, y) == (), "y is elsewhere"
    assert together(x, record("y", closed(A), home="8:18")) == ("a",), "an orderly end may move"


def test_a_place_that_is_not_known_proves_nothing() -> None:
    assert together(record("x", home=""), record("y")) == (), "by a version that did not note it"
    assert together(record("x", home=""), record("y", home=""), home="") == ()
    old = [record(name, closed(A), home="") for name in "xy"]
    assert together(*old) == ("a",), "an update after an orderly end"


def test_what_a_start_finds_lost_is_what_others_wrote() -> None:
    assert lost(started(A, "boot", "b"), incarnation="b").incarnations == ("b",)
    assert lost(failed(A), incarnation="a").incarnations == ()


SEEN = Volume(superblock="ext4:7", mount_namespace="4", mount="70", errors="0:0:0")
NO_SYSFS = replace(SEEN, superblock="", errors="")


@pytest.mark.parametrize(
    ("before", "now", "whole"),
    [
        (SEEN, SEEN, True),
        (SEEN, replace(SEEN, superblock="ext4:8"), False),  # Unmounted and mounted again.
        (SEEN, replace(SEEN, superblock="xfs:7"), False),
        (SEEN, replace(SEEN, errors="1:55:0"), False),
        (SEEN, replace(SEEN, read_only=True), False),
        (SEEN, replace(SEEN, mount="71"), True),  # Another mount of what was mounted all along.
        (SEEN, replace(SEEN, mount="71", mount_namespace="9"), True),  # A container starts again.
        (NO_SYSFS, NO_SYSFS, True),
        (NO_SYSFS, replace(NO_SYSFS, mount="71"), False),
        (NO_SYSFS, replace(NO_SYSFS, mount="71", mount_namespace="9"), True),
        (NO_SYSFS, replace(NO_SYSFS, mount=""), True),
        (replace(NO_SYSFS, mount_namespace=""), Volume(mount="71"), True),  # Linux 6.8 to 6.10.
        (UNKNOWN_VOLUME, SEEN, True),
        (SEEN, UNKNOWN_VOLUME, True),
        (UNKNOWN_VOLUME, replace(SEEN, read_only=True), False),
    ],
)
def test_whether_a_file_system_may_hold_what_was_written(
    before: Volume, now: Volume, whole: bool
) -> None:
    assert survived(before, now) == whole

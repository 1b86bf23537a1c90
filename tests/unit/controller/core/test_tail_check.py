"""Who keeps everything: an orderly end, or the same kernel and the same directory (KIP-966)."""

from dataclasses import replace

from highwater.controller.core.tail_check import DiskEvidence, has_its_tail
from tests.support.controller_images import node_state

BEFORE = node_state(1)  # Epoch 11.
KILLED = DiskEvidence(node_epoch=11, clean_shutdown=False, boot_id="boot")


def test_a_killed_process_on_the_same_kernel() -> None:
    assert has_its_tail(BEFORE, "boot", KILLED)


def test_a_power_cut() -> None:
    assert not has_its_tail(BEFORE, "boot", replace(KILLED, boot_id="next boot"))
    assert not has_its_tail(BEFORE, "", replace(KILLED, boot_id=""))


def test_an_orderly_end_survives_a_reboot() -> None:
    closed = replace(KILLED, clean_shutdown=True, boot_id="next boot")
    assert has_its_tail(BEFORE, "boot", closed)
    assert not has_its_tail(BEFORE, "boot", replace(closed, node_epoch=10)), "an older end"


def test_an_empty_or_foreign_disk_in_a_machine_that_ran_on() -> None:
    assert not has_its_tail(BEFORE, "boot", replace(KILLED, node_epoch=-1))
    assert not has_its_tail(BEFORE, "boot", replace(KILLED, node_epoch=10))

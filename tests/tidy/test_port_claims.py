"""Test processes do not choose each other's ports."""

from tests.support.port_claims import SLOT_PORTS, PortClaims


def test_a_port_is_claimed_once_and_old_claims_lapse(tmp_path):
    mine, other = PortClaims(tmp_path, claims_max=3), PortClaims(tmp_path)
    first = range(100 * SLOT_PORTS, 100 * SLOT_PORTS + 2)
    assert mine.claim(first)
    across = range(first[0] - 1, first[0] + 1)
    assert not other.claim(across)
    assert not mine.claim(across), "the next part of one cluster would share a port"
    before = range(first[0] - 1, first[0])
    assert mine.claim(before), "the refused claims have left nothing"
    assert mine.claim(range(2 * SLOT_PORTS))
    assert other.claim(first), "three slots are newer"
    mine.close()
    assert other.claim(range(SLOT_PORTS))
    other.close()

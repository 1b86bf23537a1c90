from highwater.gateway.handling.shared_state import SharedState


def test_gateways_share_nothing():
    one, other = SharedState(), SharedState()
    assert one.creations == {}
    assert one.creations is not other.creations
    assert one.producer_ids is not other.producer_ids

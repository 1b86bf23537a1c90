from highwater.model.client_quotas import CLIENT_ID, USER, ClientQuotaKey, quota_entity
from highwater.model.cluster import ClusterDelta, ClusterImage
from highwater.model.ids import DEFAULT_INSTANCE


def test_parts_are_in_order_and_the_last_one_of_a_type_counts():
    parts = [(USER, "a"), (CLIENT_ID, None), (USER, "b")]
    assert quota_entity(parts) == ((CLIENT_ID, None), (USER, "b"))
    assert quota_entity([]) == ()


def test_an_image_forgets_entities_without_values():
    one, two = (ClientQuotaKey(DEFAULT_INSTANCE, ((USER, name),)) for name in "ab")
    image = ClusterImage(revision=1, cluster_id="c")
    image = image.apply(ClusterDelta(revision=2, client_quotas={one: {"x": 1.0}, two: {"y": 2.0}}))
    assert image.apply(ClusterDelta(revision=3)).client_quotas is image.client_quotas
    image = image.apply(ClusterDelta(revision=3, client_quotas={one: {}, two: {"z": 3.0}}))
    assert image.client_quotas == {two: {"z": 3.0}}

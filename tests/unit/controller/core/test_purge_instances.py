"""What a purge removes, in which order and in which slices."""

from collections.abc import Iterator
from dataclasses import replace

from highwater.controller.core import purge_instances as module
from highwater.controller.core.purge_instances import PurgeStep, due, purge_instances
from highwater.model.client_metrics import ClientMetricsKey
from highwater.model.client_quotas import ClientQuotaKey
from highwater.model.cluster import ClusterImage
from highwater.model.group_config_table import GroupConfigKey
from highwater.model.ids import InstanceId
from highwater.model.instances import InstanceState
from highwater.model.scram import ScramCredential, ScramKey, ScramMechanism
from tests.support.acls import acl
from tests.support.controller_images import image_with, topic_state, with_instances

SHOP, OTHER = InstanceId("shop"), InstanceId("other")
CREDENTIAL = ScramCredential(iterations=4_096, salt=b"s", stored_key=b"a", server_key=b"b")


def image_of(topics: int = 3, partitions: int = 1, users: int = 2) -> ClusterImage:
    """Two instances that have the same; the time of "shop" is 100."""
    names = [f"t{n}" for n in range(topics)]
    image = image_with(
        1,
        topics=[
            topic_state(name, [(1,)] * partitions, instance=who)
            for who in (SHOP, OTHER)
            for name in names
        ],
    )
    image = with_instances(
        image, InstanceState(instance=SHOP, purge_at_ms=100), InstanceState(instance=OTHER)
    )
    both = (SHOP, OTHER)
    sha = ScramMechanism.SCRAM_SHA_256
    return replace(
        image,
        scram_credentials={
            ScramKey(who, f"u{n}", sha): CREDENTIAL for who in both for n in range(users)
        },
        acls=frozenset(acl("t", instance=who) for who in both),
        client_quotas={
            ClientQuotaKey(who, (("user", "u"),)): {"producer_byte_rate": 1.0} for who in both
        },
        client_metrics={ClientMetricsKey(who, "m"): {"interval.ms": "1000"} for who in both},
        group_configs={
            GroupConfigKey(who, "g"): {"consumer.session.timeout.ms": "50000"} for who in both
        },
    )


def steps(image: ClusterImage, now_ms: int = 100) -> Iterator[tuple[PurgeStep, ClusterImage]]:
    """All steps, and the image after each."""
    for _ in range(1_000):
        decision = purge_instances(image, now_ms)
        if decision.result is None:
            assert decision.delta is None
            return
        assert decision.delta is not None
        image = image.apply(replace(decision.delta, revision=image.revision + 1))
        yield decision.result, image
    raise AssertionError("it does not end")


def owners(image: ClusterImage) -> set[InstanceId]:
    """Whose anything in the image is."""
    keys = (*image.scram_credentials, *image.acls, *image.client_quotas)
    keys += (*image.client_metrics, *image.group_configs, *image.topics.values())
    return {key.instance for key in keys} | set(image.instances)


def test_nothing_goes_before_its_time() -> None:
    image = image_of()
    assert due(image, 99) is None
    assert purge_instances(image, 99).delta is None
    assert due(image, 100) == SHOP


def test_the_one_that_waits_longest_is_first() -> None:
    older = InstanceState(instance=InstanceId("older"), purge_at_ms=50)
    assert due(with_instances(image_of(), older), 100) == "older"


def test_all_that_is_its_own_goes_and_the_instance_last() -> None:
    done = list(steps(image_of()))
    assert [step for step, _ in done] == [
        PurgeStep(instance=SHOP, topics=3),
        PurgeStep(instance=SHOP, entries=6),
        PurgeStep(instance=SHOP, ended=True),
    ]
    assert owners(done[1][1]) == {SHOP, OTHER}
    last = done[-1][1]
    assert owners(last) == {OTHER}
    whole = image_of()
    assert len(last.topics) == len(whole.topics) / 2
    assert len(last.scram_credentials) == len(whole.scram_credentials) / 2


def test_what_was_added_meanwhile_goes_before_the_instance() -> None:
    """Not by anybody who asks (it is closed), but a purge would not leave it behind."""
    (_, _), (_, image), _ = steps(image_of())
    late = replace(image, acls=image.acls | {acl("late", instance=SHOP)})
    assert purge_instances(late, 100).result == PurgeStep(instance=SHOP, entries=1)


def test_slices_of_topics_are_bounded(monkeypatch) -> None:
    monkeypatch.setattr(module, "TOPICS_PER_SLICE", 2)
    counts = [step.topics for step, _ in steps(image_of(topics=5))]
    assert counts == [2, 2, 1, 0, 0]


def test_slices_of_partitions_are_bounded(monkeypatch) -> None:
    monkeypatch.setattr(module, "PARTITIONS_PER_SLICE", 5)
    assert [step.topics for step, _ in steps(image_of(topics=3, partitions=2))] == [2, 1, 0, 0]
    large = [step.topics for step, _ in steps(image_of(topics=2, partitions=6))]
    assert large == [1, 1, 0, 0], "one that is too large goes alone"


def test_slices_of_entries_are_bounded(monkeypatch) -> None:
    monkeypatch.setattr(module, "ENTRIES_PER_SLICE", 2)
    counts = [step.entries for step, _ in steps(image_of(topics=0, users=5))]
    assert counts == [6, 2, 1, 0]

from highwater.gateway.handling.features import EPOCH, LEVELS


def test_features_that_clients_act_on():
    # Java's producers use the second version of transactions at level 2 of transaction.version,
    # librdkafka's and Java's consumers groups of KIP-848 at level 1 of group.version.
    assert LEVELS["transaction.version"] == 0
    assert LEVELS["group.version"] == 1
    assert "share.version" not in LEVELS


def test_the_epoch_is_known():
    assert EPOCH >= 0

from highwater.gateway.handling.features import EPOCH, LEVELS, LOWEST


def test_features_that_clients_act_on():
    # Java's producers use the second version of transactions at level 2 of transaction.version,
    # librdkafka's and Java's consumers groups of KIP-848 at level 1 of group.version.
    assert (LOWEST["transaction.version"], LEVELS["transaction.version"]) == (0, 2)
    assert LEVELS["group.version"] == 1
    assert "share.version" not in LEVELS


def test_no_feature_is_finalized_at_a_level_that_is_not_supported():
    assert LEVELS.keys() == LOWEST.keys()
    assert all(LOWEST[name] <= level for name, level in LEVELS.items())


def test_the_epoch_is_known():
    assert EPOCH >= 0

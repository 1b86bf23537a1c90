import pytest

from highwater.gateway.login.principal_rules import PrincipalRules, distinguished_name

ALICE = "CN=alice,OU=ServiceUsers,O=Example,C=de"


@pytest.mark.parametrize(
    ("rules", "name"),
    [
        ((), ALICE),
        (("DEFAULT",), ALICE),
        (("RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/",), "alice"),
        (("RULE:^CN=(.*?),OU=(.*?),.*$/$1@$2/U",), "ALICE@SERVICEUSERS"),
        (("RULE:^CN=([^,]*),.*$/A.$1/L",), "a.alice"),
        (("RULE:^CN=bob.*$/bob/", "DEFAULT"), ALICE),
        (("RULE:^CN=bob.*$/bob/",), None),
        (("RULE:CN=alice/alice/",), None),
        (("RULE:^.*$/a\\\\b/",), "a\\\\b"),
    ],
)
def test_the_first_rule_that_matches_names(rules, name):
    assert PrincipalRules(rules).name_of(ALICE) == name


@pytest.mark.parametrize(
    "rule", ["", "default", "RULE:x", "RULE:^(.*$/x/", "RULE:^(.*)$/$2/", "RULE:^.*$/x/Q"]
)
def test_texts_that_are_no_rules(rule):
    with pytest.raises(ValueError, match=r"rule|RULE"):
        PrincipalRules((rule,))


def test_a_name_begins_with_its_most_specific_part():
    subject = (
        (("countryName", "de"),),
        (("organizationName", 'Ex, "a"+b'),),
        (("commonName", "alice"), ("userId", "7")),
    )
    assert distinguished_name(subject) == 'CN=alice+UID=7,O=Ex\\, \\"a\\"\\+b,C=de'

from highwater.gateway.core.login_port import Step


def test_a_step_in_the_middle_of_a_login_names_nobody():
    assert Step(b"challenge").user is None

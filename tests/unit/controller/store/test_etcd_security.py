from pathlib import Path

import pytest

from highwater.controller.store.etcd_security import PLAIN, EtcdSecurity
from highwater.model.errors import UsageError


def test_plain_has_no_credentials():
    PLAIN.check_files()
    assert PLAIN.channel_credentials() is None


def test_a_password_does_not_show(tmp_path):
    security = EtcdSecurity(ca_file=tmp_path / "ca.pem", user="u", password="open sesame")
    assert "sesame" not in repr(security)
    assert "'u'" not in repr(security)
    assert "user=u" in repr(security)


def test_files_are_read_when_asked_for(tmp_path):
    ca = tmp_path / "ca.pem"
    security = EtcdSecurity(ca_file=ca)
    for read in (security.check_files, security.channel_credentials):
        with pytest.raises(UsageError, match=r"cannot read .*ca\.pem: No such file"):
            read()
    ca.write_text("anything: gRPC looks at it when it connects")
    security.check_files()
    assert security.channel_credentials() is not None
    with pytest.raises(UsageError, match=r"key\.pem"):
        EtcdSecurity(ca_file=ca, cert_file=ca, key_file=tmp_path / "key.pem").check_files()


@pytest.mark.parametrize(
    "half",
    [
        {"cert_file": Path("c"), "ca_file": Path("c")},
        {"user": "u", "ca_file": Path("c")},
        {"user": "u", "password": "p"},
        {"cert_file": Path("c"), "key_file": Path("c")},
    ],
)
def test_incomplete_credentials_are_bugs_of_the_caller(half):
    with pytest.raises(AssertionError):
        EtcdSecurity(**half)

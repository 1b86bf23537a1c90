import ssl

import pytest

from highwater.embed.clients.client_properties import (
    BrokerAccess,
    Login,
    access_of,
    properties_of,
    read_properties,
)
from highwater.model.errors import UsageError
from tests.support.certificates import make_certificate

KAFKAS = r"""
# For kafka-topics.
security.protocol = SASL_PLAINTEXT
sasl.mechanism: SCRAM-SHA-512
sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required \
    username="alice" password="a \\"b\\" \\\\ \u00fc";
unknown.property=1
"""
LOGIN = Login(mechanism="SCRAM-SHA-512", user="alice", password='a "b" \\ ü')


def test_the_file_of_kafka_s_tools(tmp_path):
    file = tmp_path / "client.properties"
    file.write_text(KAFKAS)
    assert read_properties(str(file)) == BrokerAccess(login=LOGIN)
    assert "a " not in repr(LOGIN)


def test_names_of_librdkafka():
    access = access_of(
        {
            "security.protocol": "sasl_plaintext",
            "sasl.mechanisms": "PLAIN",
            "sasl.username": "alice",
            "sasl.password": "x",
        }
    )
    assert access.login == Login(mechanism="PLAIN", user="alice", password="x")
    assert access_of({}) == BrokerAccess()


def test_tls_with_and_without_a_certificate_of_its_own(tmp_path):
    cert, key = make_certificate(tmp_path)
    both = tmp_path / "both.pem"
    both.write_bytes(cert.read_bytes() + key.read_bytes())
    plain = access_of({"security.protocol": "SSL", "ssl.ca.location": str(cert)}).tls
    assert plain.verify_mode is ssl.CERT_REQUIRED
    assert plain.check_hostname
    assert len(plain.get_ca_certs()) == 1
    assert access_of(
        {
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": "PLAIN",
            "sasl.username": "alice",
            "sasl.password": "x",
            "ssl.truststore.location": str(cert),
            "ssl.truststore.type": "PEM",
            "ssl.keystore.location": str(both),
        }
    ).login
    other = {"ssl.certificate.location": str(cert), "ssl.key.location": str(key)}
    unchecked = {"ssl.endpoint.identification.algorithm": ""}
    assert not access_of({"security.protocol": "SSL"} | other | unchecked).tls.check_hostname


@pytest.mark.parametrize(
    ("properties", "told"),
    [
        ({"security.protocol": "TLS"}, "security.protocol is one of"),
        ({"security.protocol": "SASL_SSL", "sasl.mechanism": "GSSAPI"}, "sasl.mechanism is one of"),
        ({"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN"}, "username and"),
        ({"security.protocol": "SSL", "ssl.truststore.type": "JKS"}, "is PEM here, not JKS"),
        ({"security.protocol": "SSL", "ssl.ca.location": "/nowhere"}, "the files of TLS: No such"),
    ],
)
def test_what_cannot_be(properties, told):
    with pytest.raises(UsageError, match=told):
        access_of(properties)


@pytest.mark.parametrize("content", [b"\xff", b"# " + b"x" * 70_000, b"alone"])
def test_files_that_are_none_are_told_without_what_is_in_them(tmp_path, content):
    file = tmp_path / "client.properties"
    file.write_bytes(content)
    with pytest.raises(UsageError, match=str(file)) as caught:
        read_properties(str(file))
    assert "alone" not in str(caught.value)
    with pytest.raises(UsageError, match="No such file"):
        read_properties(str(tmp_path / "nothing"))


def test_the_last_of_a_name_counts():
    assert properties_of("a=1\n\n! no\na = 2\nb\\\n  =3\n") == {"a": "2", "b": "3"}

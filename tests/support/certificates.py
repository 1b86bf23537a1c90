"""Certificates of our own for localhost, and TLS by them."""

from __future__ import annotations

import ssl
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    KeySerializationEncryption,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)
from cryptography.x509.oid import NameOID

Certificate = tuple[Path, Path]
"""PEM files: the certificate, its key."""

LIFETIME = timedelta(days=2)
_HERE = x509.SubjectAlternativeName(
    [x509.DNSName("localhost"), x509.IPAddress(ip_address("127.0.0.1"))]
)


@dataclass(frozen=True, slots=True)
class _Signer:
    """Who signs, and with what."""

    name: x509.Name
    key: ec.EllipticCurvePrivateKey


def make_certificate(directory: Path) -> Certificate:
    """For localhost and 127.0.0.1, signed by itself: whoever trusts it trusts the server."""
    key = _new_key()
    signer = _Signer(_name("localhost"), key)
    return _write(directory, "cert", _signed(key, signer.name, signer, authority=True), key)


def tls_contexts(certificate: Certificate) -> tuple[ssl.SSLContext, ssl.SSLContext]:
    """A server's and that of a client which trusts it."""
    cert, key = certificate
    server = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    server.load_cert_chain(cert, key)
    return server, ssl.create_default_context(cafile=str(cert))


def lock_key(key: Path, locked: Path, password: bytes) -> None:
    """Writes the same key behind a password."""
    found = load_pem_private_key(key.read_bytes(), None)
    assert isinstance(found, ec.EllipticCurvePrivateKey)
    locked.write_bytes(_pem(found, BestAvailableEncryption(password)))


@dataclass(frozen=True, slots=True)
class Authority:
    """Issues certificates, in a directory of its own."""

    directory: Path
    signer: _Signer

    @property
    def certificate(self) -> Path:
        return self.directory / "ca.pem"

    def issue(self, name: str, directory: Path | None = None) -> Certificate:
        """For localhost and 127.0.0.1, with `name` as its CN."""
        place = directory or self.directory / name
        place.mkdir(exist_ok=True)
        key = _new_key()
        return _write(place, "cert", _signed(key, _name(name), self.signer), key)


def make_authority(directory: Path) -> Authority:
    """A new one, whom nobody trusts yet."""
    directory.mkdir(exist_ok=True)
    key = _new_key()
    signer = _Signer(_name("authority"), key)
    _write(directory, "ca", _signed(key, signer.name, signer, authority=True), key)
    return Authority(directory, signer)


def _new_key() -> ec.EllipticCurvePrivateKey:
    return ec.generate_private_key(ec.SECP256R1())


def _name(common_name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])


def _signed(
    key: ec.EllipticCurvePrivateKey, name: x509.Name, signer: _Signer, *, authority: bool = False
) -> x509.Certificate:
    now = datetime.now(UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(signer.name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(minutes=5))
        .not_valid_after(now + LIFETIME)
        .add_extension(_HERE, critical=False)
        .add_extension(x509.BasicConstraints(ca=authority, path_length=None), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(signer.key.public_key()),
            critical=False,
        )
        .sign(signer.key, hashes.SHA256())
    )


def _write(
    directory: Path, stem: str, certificate: x509.Certificate, key: ec.EllipticCurvePrivateKey
) -> Certificate:
    """`<stem>.pem` and its key, which is `key.pem` unless it is an authority's."""
    cert = directory / f"{stem}.pem"
    secret = directory / ("key.pem" if stem == "cert" else f"{stem}-key.pem")
    cert.write_bytes(certificate.public_bytes(Encoding.PEM))
    secret.write_bytes(_pem(key, NoEncryption()))
    return cert, secret


def _pem(key: ec.EllipticCurvePrivateKey, encryption: KeySerializationEncryption) -> bytes:
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, encryption)

"""Self-made certificates: one authority in the state folder and what it signs; keys are PKCS#8, as granian needs them.

Knows no app. Everything secret is written 0600 under a lock, so that processes that start together agree.
"""

from __future__ import annotations

import contextlib
import datetime
import fcntl
import ipaddress
import os
import pathlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.types import PrivateKeyTypes
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

_AUTHORITY_DAYS: Final = 3650
_LEAF_DAYS: Final = 365
_RENEW_DAYS: Final = 30
_SKEW: Final = datetime.timedelta(minutes=5)  # a client whose clock is behind accepts a fresh certificate


@dataclass(frozen=True, slots=True)
class Pair:
    """A certificate and its private key as PEM files."""

    cert: pathlib.Path
    key: pathlib.Path


def authority(folder: pathlib.Path) -> Pair:
    """The authority of this installation, made at the first call."""
    with _locked(folder):
        return _authority(folder)


def server(folder: pathlib.Path, name: str, hosts: Iterable[str]) -> Pair:
    """A server certificate for host names and addresses; renewed 30 days before its end or when the hosts change."""
    return _leaf(folder, name, tuple(hosts), ExtendedKeyUsageOID.SERVER_AUTH)


def client(folder: pathlib.Path, name: str) -> Pair:
    """A client certificate whose common name is `name`."""
    return _leaf(folder, name, (), ExtendedKeyUsageOID.CLIENT_AUTH)


def pkcs8(key: pathlib.Path, copy: pathlib.Path) -> pathlib.Path:
    """The key itself when it is PKCS#8 already, else a converted copy. ValueError: no unencrypted key."""
    content = key.read_bytes()
    if b"BEGIN PRIVATE KEY" in content:
        return key
    try:
        loaded = serialization.load_pem_private_key(content, password=None)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{key} holds no unencrypted private key in PEM form") from error
    copy.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    _write(copy, _key_pem(loaded))
    return copy


@contextlib.contextmanager
def _locked(folder: pathlib.Path) -> Iterator[None]:
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    with (folder / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _authority(folder: pathlib.Path) -> Pair:
    pair = Pair(folder / "ca.pem", folder / "ca-key.pem")
    if pair.cert.exists() and pair.key.exists():
        return pair
    key = ec.generate_private_key(ec.SECP256R1())
    usage = x509.KeyUsage(
        digital_signature=True,
        key_cert_sign=True,
        crl_sign=True,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )
    certificate = (
        _builder("GPU quota platform authority", key.public_key(), _AUTHORITY_DAYS)
        .issuer_name(_name("GPU quota platform authority"))
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(usage, critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .sign(key, hashes.SHA256())
    )
    _write(pair.key, _key_pem(key))
    _write(pair.cert, certificate.public_bytes(serialization.Encoding.PEM), mode=0o644)
    return pair


def _leaf(folder: pathlib.Path, name: str, hosts: tuple[str, ...], usage: x509.ObjectIdentifier) -> Pair:
    pair = Pair(folder / f"{name}.pem", folder / f"{name}-key.pem")
    with _locked(folder):
        signer = _authority(folder)
        if pair.key.exists() and _still_good(pair.cert, hosts):
            return pair
        key = ec.generate_private_key(ec.SECP256R1())
        certificate = _signed(signer, name, key.public_key(), hosts, usage)
        _write(pair.key, _key_pem(key))
        _write(pair.cert, certificate.public_bytes(serialization.Encoding.PEM), mode=0o644)
        return pair


def _signed(
    signer: Pair, name: str, key: ec.EllipticCurvePublicKey, hosts: tuple[str, ...], usage: x509.ObjectIdentifier
) -> x509.Certificate:
    issuer = x509.load_pem_x509_certificate(signer.cert.read_bytes())
    issuer_key = serialization.load_pem_private_key(signer.key.read_bytes(), password=None)
    assert isinstance(issuer_key, ec.EllipticCurvePrivateKey)  # noqa: S101 - we wrote it
    builder = (
        _builder(name, key, _LEAF_DAYS)
        .issuer_name(issuer.subject)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(x509.ExtendedKeyUsage([usage]), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(issuer_key.public_key()), critical=False)
    )
    if hosts:
        builder = builder.add_extension(x509.SubjectAlternativeName([_host(host) for host in hosts]), critical=False)
    return builder.sign(issuer_key, hashes.SHA256())


def _still_good(cert: pathlib.Path, hosts: tuple[str, ...]) -> bool:
    if not cert.exists():
        return False
    certificate = x509.load_pem_x509_certificate(cert.read_bytes())
    left = certificate.not_valid_after_utc - datetime.datetime.now(datetime.UTC)
    return left > datetime.timedelta(days=_RENEW_DAYS) and _hosts_of(certificate) == {_host(host) for host in hosts}


def _hosts_of(certificate: x509.Certificate) -> set[x509.GeneralName]:
    try:
        return set(certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value)
    except x509.ExtensionNotFound:
        return set()


def _host(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host.strip("[]")))
    except ValueError:
        return x509.DNSName(host)


def _builder(name: str, key: ec.EllipticCurvePublicKey, days: int) -> x509.CertificateBuilder:
    now = datetime.datetime.now(datetime.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(_name(name))
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _SKEW)
        .not_valid_after(now + datetime.timedelta(days=days))
    )


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


def _key_pem(key: PrivateKeyTypes) -> bytes:
    form = (serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    return key.private_bytes(*form)


def _write(path: pathlib.Path, content: bytes, mode: int = 0o600) -> None:
    """Whole or not at all, and never readable by others in between."""
    fresh = path.with_name(f".{path.name}.new")
    fresh.unlink(missing_ok=True)
    with os.fdopen(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "wb") as out:
        out.write(content)
    fresh.replace(path)

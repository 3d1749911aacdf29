"""A throw-away certificate authority for the simulated cluster. Knows nothing of who serves with it."""

from __future__ import annotations

import datetime
import ipaddress
import ssl
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

_LASTS = datetime.timedelta(days=30)


@dataclass(frozen=True, slots=True)
class Issued:
    """A certificate and its key, PEM (the key is PKCS#8)."""

    certificate: bytes
    key: bytes

    def write(self, folder: Path, stem: str) -> tuple[Path, Path]:
        """Write STEM.crt and STEM.key; the key is readable by its owner only."""
        crt, key = folder / f"{stem}.crt", folder / f"{stem}.key"
        crt.write_bytes(self.certificate)
        key.touch(mode=0o600)
        key.write_bytes(self.key)
        return crt, key


class Authority:
    """A self-signed CA that issues server certificates."""

    def __init__(self, name: str = "simulated cluster") -> None:
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        built = _builder(self._subject, self._subject, self._key.public_key())
        built = built.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        self._certificate = built.sign(self._key, hashes.SHA256())

    @property
    def pem(self) -> bytes:
        """The CA's certificate."""
        return self._certificate.public_bytes(serialization.Encoding.PEM)

    def issue(self, names: Sequence[str] = ("localhost", "127.0.0.1")) -> Issued:
        """A server certificate for DNS names and addresses."""
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, names[0])])
        alternative = x509.SubjectAlternativeName([_general_name(name) for name in names])
        built = _builder(subject, self._subject, key.public_key()).add_extension(alternative, critical=False)
        signed = built.sign(self._key, hashes.SHA256())
        private = key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        return Issued(signed.public_bytes(serialization.Encoding.PEM), private)

    def server_context(self, names: Sequence[str] = ("localhost", "127.0.0.1")) -> ssl.SSLContext:
        """A context to serve with, with a certificate of its own."""
        issued = self.issue(names)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        with tempfile.TemporaryDirectory() as folder:
            context.load_cert_chain(*issued.write(Path(folder), "server"))
        return context


def _general_name(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)


def _builder(subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey) -> x509.CertificateBuilder:
    now = datetime.datetime.now(datetime.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(minutes=5))
        .not_valid_after(now + _LASTS)
    )

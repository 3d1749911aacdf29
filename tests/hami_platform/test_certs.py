from __future__ import annotations

import datetime
import pathlib
import ssl
import stat

import pytest
import time_machine
from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from hami_platform import certs


def test_a_server_certificate_is_trusted_for_its_hosts_only(tmp_path: pathlib.Path) -> None:
    pair = certs.server(tmp_path, "webhook", ["gpu.svc", "127.0.0.1"])
    served = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    served.load_cert_chain(pair.cert, pair.key)
    trusting = ssl.create_default_context(cafile=str(tmp_path / "ca.pem"))
    assert handshake(served, trusting, "gpu.svc")
    assert handshake(served, trusting, "127.0.0.1")
    assert not handshake(served, trusting, "other.svc")


def test_keys_are_pkcs8_and_private(tmp_path: pathlib.Path) -> None:
    pair = certs.server(tmp_path, "webhook", ["localhost"])
    for key in (pair.key, tmp_path / "ca-key.pem"):
        assert b"BEGIN PRIVATE KEY" in key.read_bytes()
        assert stat.S_IMODE(key.stat().st_mode) == 0o600


def test_a_second_start_keeps_the_certificate(tmp_path: pathlib.Path) -> None:
    first = certs.server(tmp_path, "webhook", ["localhost"]).cert.read_bytes()
    assert certs.server(tmp_path, "webhook", ["localhost"]).cert.read_bytes() == first


def test_other_hosts_or_a_near_end_make_a_new_one_from_the_same_authority(tmp_path: pathlib.Path) -> None:
    first = certs.server(tmp_path, "webhook", ["localhost"]).cert.read_bytes()
    authority = certs.authority(tmp_path).cert.read_bytes()
    second = certs.server(tmp_path, "webhook", ["localhost", "gpu.svc"]).cert.read_bytes()
    assert second != first
    with time_machine.travel(datetime.datetime.now(datetime.UTC) + datetime.timedelta(days=340)):
        assert certs.server(tmp_path, "webhook", ["localhost", "gpu.svc"]).cert.read_bytes() != second
    assert certs.authority(tmp_path).cert.read_bytes() == authority


def test_a_client_certificate_names_its_client(tmp_path: pathlib.Path) -> None:
    certificate = x509.load_pem_x509_certificate(certs.client(tmp_path, "kube-scheduler").cert.read_bytes())
    assert certificate.subject.rfc4514_string() == "CN=kube-scheduler"


@pytest.mark.parametrize(
    "form", [serialization.PrivateFormat.TraditionalOpenSSL, serialization.PrivateFormat.PKCS8], ids=["pkcs1", "pkcs8"]
)
def test_any_unencrypted_key_ends_as_pkcs8(tmp_path: pathlib.Path, form: serialization.PrivateFormat) -> None:
    key = rsa.generate_private_key(65537, 2048)
    file = tmp_path / "key.pem"
    file.write_bytes(key.private_bytes(serialization.Encoding.PEM, form, serialization.NoEncryption()))
    usable = certs.pkcs8(file, tmp_path / "copy.pem")
    assert b"BEGIN PRIVATE KEY" in usable.read_bytes()
    assert (usable == file) is (form is serialization.PrivateFormat.PKCS8)


def test_what_is_no_key_is_refused_by_its_name(tmp_path: pathlib.Path) -> None:
    file = tmp_path / "key.pem"
    file.write_text("not a key", encoding="utf-8")
    with pytest.raises(ValueError, match=r"key\.pem holds no unencrypted private key"):
        certs.pkcs8(file, tmp_path / "copy.pem")


def handshake(server: ssl.SSLContext, client: ssl.SSLContext, host: str) -> bool:
    """Whether a TLS handshake in memory succeeds."""
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    one = client.wrap_bio(to_client, to_server, server_hostname=host)
    other = server.wrap_bio(to_server, to_client, server_side=True)
    for _ in range(4):
        for side in (one, other):
            try:
                side.do_handshake()
            except ssl.SSLWantReadError:
                continue
            except ssl.SSLCertVerificationError:
                return False
    return one.version() is not None

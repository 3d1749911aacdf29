"""An authenticator in software: it makes passkeys and signs with them as a browser would hand it on.

It must not know the platform: bytes are made by the WebAuthn recommendation (Level 2, 6.1 and 6.5).
"""

from __future__ import annotations

import hashlib
import json
import secrets
from typing import Any

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from fido2 import cose, utils, webauthn

Json = dict[str, Any]
PRESENT, VERIFIED = webauthn.AuthenticatorData.FLAG.UP, webauthn.AuthenticatorData.FLAG.UV


class SoftKey:
    """One key pair for one relying party. verifies: whether it asks its owner for a PIN or finger."""

    def __init__(self, origin: str = "http://localhost", *, verifies: bool = True) -> None:
        self.origin, self.verifies = origin, verifies
        self.id = secrets.token_bytes(16)
        self.user = b""
        self.pair = ec.generate_private_key(ec.SECP256R1())
        self.used = 0

    def make(self, options: Json, *, resident: bool = False) -> str:
        """What the form posts after `navigator.credentials.create`."""
        asked = options["publicKey"]
        self.user = utils.websafe_decode(asked["user"]["id"])
        key = cose.ES256.from_cryptography_key(self.pair.public_key())  # type: ignore[no-untyped-call]
        attested = webauthn.AttestedCredentialData.create(b"\0" * 16, self.id, key)
        about = self._about(asked["rp"]["id"], webauthn.AuthenticatorData.FLAG.AT, bytes(attested))
        response = {
            "clientDataJSON": self._client("webauthn.create", asked["challenge"]),
            "attestationObject": utils.websafe_encode(webauthn.AttestationObject.create("none", about, {})),
        }
        return self._posted(response, {"credProps": {"rk": resident}})

    def sign(self, options: Json) -> str:
        """What the form posts after `navigator.credentials.get`."""
        asked = options["publicKey"]
        about = self._about(asked["rpId"])
        client = self._client("webauthn.get", asked["challenge"])
        signed = bytes(about) + hashlib.sha256(utils.websafe_decode(client)).digest()
        response = {
            "clientDataJSON": client,
            "authenticatorData": utils.websafe_encode(about),
            "signature": utils.websafe_encode(self.pair.sign(signed, ec.ECDSA(hashes.SHA256()))),
            "userHandle": utils.websafe_encode(self.user),
        }
        return self._posted(response, {})

    def _about(self, party: str, flags: int = 0, attested: bytes = b"") -> webauthn.AuthenticatorData:
        self.used += 1
        flags |= PRESENT | (VERIFIED if self.verifies else 0)
        made: webauthn.AuthenticatorData = webauthn.AuthenticatorData.create(
            hashlib.sha256(party.encode()).digest(), webauthn.AuthenticatorData.FLAG(flags), self.used, attested
        )
        return made

    def _client(self, kind: str, challenge: str) -> str:
        told = {"type": kind, "challenge": challenge, "origin": self.origin, "crossOrigin": False}
        return utils.websafe_encode(json.dumps(told).encode())

    def _posted(self, response: Json, results: Json) -> str:
        own = utils.websafe_encode(self.id)
        return json.dumps(
            {"type": "public-key", "id": own, "rawId": own, "response": response, "clientExtensionResults": results}
        )

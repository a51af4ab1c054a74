"""How a secret is closed before it is written down, and opened after it is read."""

import os
from pathlib import Path

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from domain.errors import Failed, Unavailable

KEY_BYTES = 32
NONCE_BYTES = 12
SALT_BYTES = 32

FIRST = bytes(NONCE_BYTES)
"""The nonce of the only thing that is sealed with a key."""


class Seal:
    """AES-256-GCM under one named key. What is sealed under one reference opens under no other,
    so a row copied to another place is worthless."""

    def __init__(self, key: bytes, name: str = "file-1") -> None:
        self._key = key
        self._cipher = AESGCM(key)
        self.name = name

    @classmethod
    def from_file(cls, path: Path) -> "Seal":
        """Read the key; make one, readable by its owner alone, if there is none yet."""
        try:
            return cls(_made(path) if not path.exists() else path.read_bytes())
        except (OSError, ValueError) as error:
            raise Unavailable(
                f"the key file {path} cannot be used: {error}",
                reason="KEY_UNAVAILABLE",
                do=f"make {path} readable for this user, or name another as WINDLASS_KEY_FILE",
            ) from error

    def close(self, reference: str, secret: bytes) -> bytes:
        nonce = os.urandom(NONCE_BYTES)
        return nonce + self._cipher.encrypt(nonce, secret, reference.encode())

    def open(self, reference: str, sealed: bytes) -> bytes:
        nonce, rest = sealed[:NONCE_BYTES], sealed[NONCE_BYTES:]
        try:
            return self._cipher.decrypt(nonce, rest, reference.encode())
        except (InvalidTag, ValueError) as error:  # ValueError: cut short
            raise Failed(
                f"the secret {reference} does not open with key {self.name}",
                subject=reference,
                reason="WRONG_KEY",
                do="start with the key file the secret was sealed with",
            ) from error

    def close_one(self, purpose: str, secret: bytes) -> bytes:
        """Seal one of very many things. Each has a key of its own, so that there may be any number
        of them: no nonce comes twice under one key."""
        salt = os.urandom(SALT_BYTES)
        return salt + self.derived(salt, purpose).encrypt(FIRST, secret, None)

    def open_one(self, purpose: str, sealed: bytes) -> bytes:
        """What was sealed so, for that purpose."""
        salt, rest = sealed[:SALT_BYTES], sealed[SALT_BYTES:]
        try:
            return self.derived(salt, purpose).decrypt(FIRST, rest, None)
        except (InvalidTag, ValueError) as error:  # ValueError: cut short
            raise Failed(
                f"a {purpose} does not open with key {self.name}",
                reason="WRONG_KEY",
                do="start with the key file it was sealed with",
            ) from error

    def derived(self, salt: bytes, purpose: str) -> AESGCM:
        """A cipher with a key of its own, made of ours: what it seals may count its nonces."""
        key = HKDF(SHA256(), KEY_BYTES, salt, purpose.encode()).derive(self._key)
        return AESGCM(key)


def _made(path: Path) -> bytes:
    """Two processes may start at once: the file appears whole, and the first one wins."""
    path.parent.mkdir(parents=True, exist_ok=True)
    fresh = path.with_name(f".{path.name}.{os.getpid()}")
    with os.fdopen(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(AESGCM.generate_key(bit_length=KEY_BYTES * 8))
    try:
        os.link(fresh, path)
    except FileExistsError:
        pass
    finally:
        fresh.unlink()
    return path.read_bytes()

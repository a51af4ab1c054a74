"""How a secret is closed before it is written down, and opened after it is read.

A secret lies under a key of its own, its data key, and that under one of ours, which has a name: so
ours is exchanged without a look at the secret. Whatever is sealed says with which of our keys."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from domain.errors import Failed, NotFound, Unavailable
from store import keys
from store.keys import FIRST_NAME, KEY_BYTES, Keys, Source

NONCE_BYTES = 12
SALT_BYTES = 32

FIRST = bytes(NONCE_BYTES)
"""The nonce of the only thing that is sealed with a key."""


class Sealed(NamedTuple):
    """A secret as it is kept."""

    key: str
    """Which of our keys its data key lies under."""
    wrapped: bytes
    """The data key. Empty: the secret itself lies under our key, as all did at first."""
    secret: bytes


class Seal:
    """AES-256-GCM under named keys, of which one is used and all open. What is sealed under one
    reference opens under no other, so a row copied to another place is worthless."""

    def __init__(self, key: bytes, name: str = FIRST_NAME, source: Source | None = None) -> None:
        AESGCM(key)  # ValueError, if it is none
        self._keys: Keys = {name: key}
        self._source = source
        self.name = name
        """Which key is used."""

    @classmethod
    def of(cls, source: Source) -> "Seal":
        """With the keys that lie there, of which the first is used."""
        found = source()
        name = next(iter(found))
        seal = cls(found[name], name, source)
        seal._keys = found
        return seal

    @classmethod
    def from_file(cls, path: Path, command: Sequence[str] = ()) -> "Seal":
        """With the keys in a file, or else those that a command prints."""
        return cls.of(keys.source(path, command))

    @property
    def names(self) -> Sequence[str]:
        """The keys that are known here."""
        return tuple(self._keys)

    def reload(self) -> None:
        """Look again which keys there are. One that is gone is known on until the end of the
        process: something may still be sealed with it."""
        if self._source is not None:
            self._keys = {**self._keys, **self._source()}

    def use(self, name: str) -> None:
        """Seal with another key from now on."""
        if name not in self._keys:
            raise NotFound(
                f"there is no key {name}",
                subject=name,
                reason="SEAL_KEY_NOT_FOUND",
                do="python -m store key NAME adds one; have it wherever a process runs",
            )
        self.name = name

    def close(self, reference: str, secret: bytes) -> Sealed:
        data_key = os.urandom(KEY_BYTES)
        sealed = AESGCM(data_key).encrypt(FIRST, secret, reference.encode())
        return Sealed(self.name, self._wrapped(reference, data_key), sealed)

    def open(self, reference: str, sealed: Sealed) -> bytes:
        try:
            if not sealed.wrapped:
                return self._unwrapped(sealed.key, sealed.secret, reference)
            data_key = self._unwrapped(sealed.key, sealed.wrapped, _of_key(reference))
            return AESGCM(data_key).decrypt(FIRST, sealed.secret, reference.encode())
        except (InvalidTag, ValueError) as error:  # ValueError: cut short
            raise _unopened(reference, sealed.key) from error

    def rewrap(self, reference: str, sealed: Sealed) -> Sealed:
        """The same secret, under the key that is used now."""
        if not sealed.wrapped:
            return self.close(reference, self.open(reference, sealed))
        try:
            data_key = self._unwrapped(sealed.key, sealed.wrapped, _of_key(reference))
        except (InvalidTag, ValueError) as error:
            raise _unopened(reference, sealed.key) from error
        return Sealed(self.name, self._wrapped(reference, data_key), sealed.secret)

    def close_one(self, purpose: str, secret: bytes, bound: bytes = b"") -> bytes:
        """Seal one of very many things, which opens only beside what it is bound to. Each has a
        key of its own, so that there may be any number of them: no nonce comes twice under one
        key."""
        salt = os.urandom(SALT_BYTES)
        return salt + self.derived(salt, purpose, self.name).encrypt(FIRST, secret, bound or None)

    def open_one(self, purpose: str, sealed: bytes, name: str, bound: bytes = b"") -> bytes:
        """What was sealed so, for that purpose, bound to that, with the key of that name."""
        salt, rest = sealed[:SALT_BYTES], sealed[SALT_BYTES:]
        try:
            return self.derived(salt, purpose, name).decrypt(FIRST, rest, bound or None)
        except (InvalidTag, ValueError) as error:  # ValueError: cut short
            raise Failed(
                f"a {purpose} does not open with key {name}",
                reason="WRONG_KEY",
                do="start with the key file it was sealed with",
            ) from error

    def derived(self, salt: bytes, purpose: str, name: str) -> AESGCM:
        """A cipher with a key of its own, made of ours: what it seals may count its nonces."""
        key = HKDF(SHA256(), KEY_BYTES, salt, purpose.encode()).derive(self._key(name))
        return AESGCM(key)

    def _key(self, name: str) -> bytes:
        if name in self._keys:
            return self._keys[name]
        raise Unavailable(
            f"something is sealed with key {name[:64]!r}, which is not known here",
            subject=name[:64],
            reason="SEAL_KEY_UNKNOWN",
            do="have this process find that key where the others do: in its key file, or by its "
            "key command; it looks again by itself",
        )

    def _wrapped(self, reference: str, data_key: bytes) -> bytes:
        nonce = os.urandom(NONCE_BYTES)
        cipher = AESGCM(self._key(self.name))
        return nonce + cipher.encrypt(nonce, data_key, _of_key(reference).encode())

    def _unwrapped(self, name: str, sealed: bytes, reference: str) -> bytes:
        nonce, rest = sealed[:NONCE_BYTES], sealed[NONCE_BYTES:]
        return AESGCM(self._key(name)).decrypt(nonce, rest, reference.encode())


def _of_key(reference: str) -> str:
    """What a data key is sealed for, which is never what a secret is sealed for."""
    return f"data key\n{reference}"


def _unopened(reference: str, name: str) -> Failed:
    return Failed(
        f"the secret {reference} does not open with key {name}",
        subject=reference,
        reason="WRONG_KEY",
        do="start with the key file the secret was sealed with",
    )

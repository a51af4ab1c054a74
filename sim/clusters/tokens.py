"""Bootstrap tokens, and the keys that certificates are sealed with."""

import hashlib
import secrets
import string

_CHARACTERS = string.ascii_lowercase + string.digits


def new_token() -> str:
    """A bootstrap token nobody has: six characters, a dot, sixteen characters."""
    letters = [secrets.choice(_CHARACTERS) for _ in range(22)]
    return "".join(letters[:6]) + "." + "".join(letters[6:])


def digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()

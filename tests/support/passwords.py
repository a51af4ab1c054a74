"""Passwords for tests that are allowed to be set."""

import secrets


def strong() -> str:
    """A new password that nobody guesses."""
    return secrets.token_urlsafe(18)


PASSWORD = strong()
"""The one of everybody whom a test lets in."""

WRONG, BETTER = strong(), strong()
"""One that is nobody's, and one to change to."""

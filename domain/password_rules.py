"""How hard a password is to guess: rules of our own, without a dictionary to load.

A password is read as a row of pieces, as somebody would who guesses: words, years, keys that lie
side by side, repetitions. Each piece is worth the bits that a guesser needs for it, and the sum has
to reach `BITS`. Words are recognised by their shape, so that a word of any language is one."""

import re
from collections.abc import Iterator
from itertools import takewhile

from domain.errors import Violation

CHARACTERS, BYTES = 10, 70
"""The shortest password that may be set, and the longest that is hashed."""

BITS = 40.0
"""What a new password has to be worth: about four random words, or eight random characters."""

_WORD, _WORD_LETTERS = 13.0, 8
"""A word is one of 8,000; a longer run of letters counts as several, one for each eight."""
_COMMON_WORD = 6.0
_YEAR, _DATE, _WALK, _AGAIN, _SEPARATOR = 6.0, 13.0, 5.0, 1.0, 2.0
_DIGIT, _LETTER, _SIGN = 3.3, 4.7, 5.0

COMMON = frozenset(
    """
    abc access account admin administrator alexander andrea angel apple autumn baseball batman
    berlin changeme charlie cheese cloud computer daniel default demo donald dragon edge family
    flower football freedom fruehling geheim george google guest hallo hallowelt hello helpdesk
    herbst hunter iloveyou internet januar january jesus jordan killer kubernetes letmein login
    london lovely maggie manager master matrix michael monday monkey montag mustang ninja nobody
    office operator orange passwd password passwort pepper princess private qwerty root schatz
    secret secure security server service shadow soccer sommer spring starwars summer sunshine
    superman superuser support system temp temporal test thomas trustno trustnoone user welcome
    whatever willkommen windlass windows winter
    """.split()  # noqa: SIM905 (a list of strings would be a page long)
)
_UNLEET = str.maketrans("013457@$!|", "oleastasil")
_LEET = re.compile(r"(?<=[a-z])[013457@$!|]+(?=[a-z])|^[013457@$!|](?=[a-z])", re.IGNORECASE)
_VOWELS = frozenset("aeiouyäöüáéíóúàèìòùâêîôûåæø")
_UNUSUAL = re.compile(r"[jqvxz][bcdfgjkpqvx]|[bcdfghjkmpqtvwxyz][jqx]|q[^u]|[kpw]w|v[fhmpw]|[gmz]f")
"""Pairs of letters that hardly any language has in a word."""

_ROWS = (
    *("1234567890-=", "qwertyuiop[]", "asdfghjkl;'", "zxcvbnm,./"),
    *("qwertzuiopü+", "asdfghjklöä#", "yxcvbnm,.-"),
    *("azertyuiop", "qsdfghjklm", "wxcvbn"),
    *("!@#$%^&*()", '!"§$%&/()=', "!qaz", "@wsx", "#edc", "$rfv"),
    *("1qaz", "1qay", "2wsx", "3edc", "4rfv", "5tgb", "6yhn", "6zhn", "7ujm", "8ik,", "9ol."),
    *("147", "258", "369", "789", "456", "abcdefghijklmnopqrstuvwxyz", "0123456789"),
)
_WALKS = tuple(row for way in _ROWS for row in (way, way[::-1]))
_SHORTEST_WALK = 3


def mismeasured(password: str) -> list[Violation]:
    """What keeps a password from being compared at all: it is empty, or longer than is hashed."""
    if 0 < len(password.encode(errors="replace")) <= BYTES:
        return []
    return [Violation(field="password", description=f"must have 1 to {BYTES} bytes")]


def weak(password: str, name: str = "") -> list[Violation]:
    """What is wrong with a new password of a user of that name. It is never repeated."""
    size = len(password.encode(errors="replace"))
    if len(password) < CHARACTERS or size > BYTES:
        said = f"must have {CHARACTERS} characters or more, and {BYTES} bytes or less"
    elif bits(password, name) < BITS:
        said = (
            "is too easy to guess: words, years, repetitions and keys side by side count little; "
            "take four words that have nothing to do with each other, or a generated one"
        )
    else:
        return []
    return [Violation(field="password", description=said)]


def bits(password: str, name: str = "") -> float:
    """About how many bits somebody has to guess who knows how people choose."""
    known = frozenset({name.casefold()} - {""})
    plain = _LEET.sub(lambda found: found[0].translate(_UNLEET), password)
    whole = _unrepeated(password)
    readings = {password, plain, whole, _unrepeated(plain)}
    least = min(_worth(each, known) for each in readings)
    return least + (_AGAIN if len(whole) < len(password) else 0)


def _unrepeated(text: str) -> str:
    """The text once, if it is nothing but the same again and again."""
    length = (text + text).casefold().find(text.casefold(), 1)
    return text[:length]


def _worth(text: str, known: frozenset[str]) -> float:
    seen: set[str] = set()
    total = 0.0
    for piece in _pieces(text):
        again = len(piece) > 2 and piece.casefold() in seen
        total += _AGAIN if again else _value(piece, known)
        seen.add(piece.casefold())
    return total


def _pieces(text: str) -> Iterator[str]:
    """The text in order: walks over the keyboard first, then runs of one kind of character."""
    start = 0
    for begin, end in _walks(text):
        yield from _runs(text[start:begin])
        yield text[begin:end]
        start = end
    yield from _runs(text[start:])


def _runs(text: str) -> Iterator[str]:
    """Words, as capitals part them, numbers, and runs of the rest."""
    for found in re.finditer(r"\d+|[^\W\d_]+|[\W_]+", text):
        if found[0].isalpha():
            yield from re.findall(r".[^A-ZÄÖÜ]*(?<![A-ZÄÖÜ])|[A-ZÄÖÜ]+", found[0])
        else:
            yield found[0]


def _walks(text: str) -> Iterator[tuple[int, int]]:
    """Where three or more characters follow each other on a keyboard, in the alphabet or in
    counting, or are the same."""
    low, at = text.casefold(), 0
    if len(low) != len(text):  # a letter that has no single small one
        return
    while at < len(low):
        length = _walked(low[at:])
        if length >= _SHORTEST_WALK:
            yield at, at + length
        at += length if length >= _SHORTEST_WALK else 1


def _walked(rest: str) -> int:
    """How far a walk goes from the beginning of a text."""
    length = len(rest) - len(rest.lstrip(rest[0]))
    for row in _WALKS:
        at = row.find(rest[0])
        if at >= 0:
            length = max(length, _shared(row[at:], rest))
    return length


def _shared(one: str, other: str) -> int:
    """How many characters two texts begin with alike."""
    pairs = zip(one, other, strict=False)
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))


def _value(piece: str, known: frozenset[str]) -> float:
    low = piece.casefold()
    if next(_walks(piece), None) == (0, len(piece)):
        return _WALK
    if low in known or low in COMMON:
        return _COMMON_WORD
    if piece.isdigit():
        return _number(piece)
    if not piece.isalpha():
        return _SIGN * len(set(piece)) if len(piece) > 1 else _SEPARATOR
    if len(piece) < 3:
        return (_LETTER + 1) * len(piece)
    if not _is_word(low):
        return _LETTER * len(piece)
    words = -(-len(piece) // _WORD_LETTERS)
    return min(_WORD * words, _LETTER * len(piece))


def _number(piece: str) -> float:
    if re.fullmatch(r"(?:19|20)\d\d", piece):
        return _YEAR
    if len(piece) in (6, 8) and int(piece[:2]) <= 31:
        return _DATE
    return _DIGIT * len(piece)


def _is_word(low: str) -> bool:
    """Whether letters look like words: vowels are among them, and no heap of consonants."""
    vowels = sum(each in _VOWELS for each in low)
    longest = max(map(len, re.split(f"[{''.join(_VOWELS)}]", low)))
    return len(low) <= 5 * vowels <= 4 * len(low) and longest <= 4 and not _UNUSUAL.search(low)

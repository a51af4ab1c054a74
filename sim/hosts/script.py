"""The grammar of a small shell: lists, pipes, quotes, redirection, assignment, plain variables.

No substitution of commands, no loops: a script that needs them is refused, as a real shell refuses
what it cannot parse."""

import re
from collections.abc import Iterator, Mapping
from typing import NamedTuple


class ScriptError(Exception):
    """The script cannot be read. The message is what a shell would complain of."""


class Piece(NamedTuple):
    """A part of a word, and whether variables in it are replaced."""

    text: str
    expands: bool


Word = tuple[Piece, ...]


class Redirect(NamedTuple):
    """Where a stream goes: a file, written anew or added to, or another stream."""

    stream: int
    how: str
    """`>`, `>>`, `<`, or `&` to go where stream `target` goes."""
    target: Word


class Simple(NamedTuple):
    """One command: its words, the first ones perhaps assignments, and its streams."""

    words: tuple[Word, ...]
    redirects: tuple[Redirect, ...]


class Link(NamedTuple):
    """A pipeline, and the operator that joins it to what comes before: `;`, `&&` or `||`."""

    joint: str
    pipeline: tuple[Simple, ...]


_TOKEN = re.compile(
    r"""
      (?P<space>[ \t]+|\\\n)
    | (?P<comment>(?<![^\s;|&])\#[^\n]*)
    | (?P<same>(?<![^\s;|&])[12]?>&[12])
    | (?P<redirect>(?<![^\s;|&])[012]?(?:>>|>|<)|>>|>|<)
    | (?P<operator>&&|\|\||;|\n|\|)
    | '(?P<single>[^']*)'
    | "(?P<double>(?:[^"\\]|\\.)*)"
    | \\(?P<escaped>.)
    | (?P<plain>[^\s'"\\;&|<>()`]+)
    """,
    re.VERBOSE | re.DOTALL,
)
_VARIABLE = re.compile(
    r"""\\(?P<escaped>[$`"\\])|\$(?:(?P<plain>\?|\$|[A-Za-z_]\w*)|\{(?P<braced>[A-Za-z_]\w*)\})"""
)


class _Token(NamedTuple):
    kind: str
    """`word`, `operator`, or a redirection by its operator."""
    text: str
    word: Word = ()
    stream: int = 1


def parse(text: str) -> list[Link]:
    """The script as a list of pipelines, in order."""
    links: list[Link] = []
    joint, pipeline = ";", list[Simple]()
    words, redirects = list[Word](), list[Redirect]()
    tokens = iter([*_tokens(text), _Token("operator", "\n")])
    for token in tokens:
        if token.kind == "word":
            words.append(token.word)
        elif token.kind == "redirect":
            if token.text == "&":
                redirects.append(Redirect(token.stream, "&", token.word))
                continue
            target = next(tokens)
            if target.kind != "word":
                raise _unexpected(target.text)
            redirects.append(Redirect(token.stream, token.text, target.word))
        elif words or redirects:
            pipeline.append(Simple(tuple(words), tuple(redirects)))
            words, redirects = [], []
            if token.text != "|":
                links.append(Link(joint, tuple(pipeline)))
                pipeline = []
                joint = token.text if token.text in ("&&", "||") else ";"
        elif token.text != "\n":
            raise _unexpected(token.text)
    if pipeline or joint != ";":
        raise _unexpected("end of file")
    return links


def expand(word: Word, variables: Mapping[str, str]) -> str:
    """The word with its variables replaced; those that are not set are empty."""

    def value(found: re.Match[str]) -> str:
        return found["escaped"] or variables.get(found["plain"] or found["braced"] or "", "")

    return "".join(
        _VARIABLE.sub(value, piece.text) if piece.expands else piece.text for piece in word
    )


def _tokens(text: str) -> Iterator[_Token]:
    pieces: list[Piece] = []
    at = 0
    while at < len(text):
        found = _TOKEN.match(text, at)
        if found is None:
            raise _unexpected(text[at])
        at = found.end()
        kind, content = str(found.lastgroup), found[str(found.lastgroup)]
        if (piece := _piece(kind, content)) is not None:
            pieces.append(piece)
            continue
        if pieces:
            yield _Token("word", "".join(piece.text for piece in pieces), tuple(pieces))
            pieces = []
        if kind == "operator":
            yield _Token("operator", content)
        elif kind == "same":
            stream = int(content[0]) if content[0].isdigit() else 1
            yield _Token("redirect", "&", (Piece(content[-1], False),), stream)
        elif kind == "redirect":
            operator = content.lstrip("012")
            stream = int(content[0]) if content[0].isdigit() else int(operator != "<")
            yield _Token("redirect", operator, (), stream)
    if pieces:
        yield _Token("word", "".join(piece.text for piece in pieces), tuple(pieces))


def _piece(kind: str, content: str) -> Piece | None:
    """A part of a word, None for what stands between words."""
    match kind:
        case "single" | "escaped":
            return Piece(content, False)
        case "double":
            if "`" in content or "$(" in content:
                raise ScriptError("command substitution is beyond this shell")
            return Piece(content, True)
        case "plain":
            return Piece(content, True)
    return None


def _unexpected(what: str) -> ScriptError:
    shown = "newline" if what == "\n" else what
    return ScriptError(f'"{shown}" unexpected')

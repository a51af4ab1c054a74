"""Messages as JSON documents, under the names that the contract's text gives their fields.

Reading is strict: what the contract does not know is refused and not passed over, since a misspelt
field would otherwise count as left out. It is for messages of plain fields and of such messages;
maps and the well-known types have forms of their own."""

import json
from collections import Counter
from collections.abc import Iterable, Iterator
from functools import cache
from itertools import islice
from typing import Any, NamedTuple

from google.protobuf import json_format
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass

from domain.errors import Invalid, Violation

VIOLATIONS = 20
"""As many as are told of one document."""

NAME_LENGTH = 64

FORMS = {
    FieldDescriptor.TYPE_STRING: "must be one string",
    FieldDescriptor.TYPE_INT32: "must be one whole number of 32 bits",
}
"""What a value has to be, said of the types that a user is likely to get wrong."""


class _Value(NamedTuple):
    """Something in a document that stands for a number, a text and the like."""

    place: str
    field: Any
    value: Any

    def fits(self) -> bool:
        message = GetMessageClass(self.field.containing_type)()
        value = [self.value] if self.field.is_repeated else self.value
        try:
            json_format.ParseDict({self.field.name: value}, message)
        except json_format.ParseError:
            return False
        return True

    def violation(self) -> Violation:
        form = FORMS.get(self.field.type, "must be of the type that the contract says")
        return Violation(field=self.place, description=form)


def written(message: Message) -> bytes:
    """The message as a document. A field that holds its default is left out."""
    document = json_format.MessageToDict(message, preserving_proto_field_name=True)
    return json.dumps(document, ensure_ascii=False, separators=(",", ":")).encode()


def read(raw: bytes, described: Any) -> Message:
    """The message that these bytes are the document of. No bytes are a message without fields."""
    if not raw:
        return filled({}, described)
    try:
        document = json.loads(raw, object_pairs_hook=_once)
    except json.JSONDecodeError as error:
        place = f"line {error.lineno}, column {error.colno}"
        raise _malformed(f"the body is not JSON: {error.msg} ({place})", described) from error
    except (ValueError, RecursionError) as error:  # not UTF-8, endless digits, or far too deep
        raise _malformed("the body is not JSON that can be read", described) from error
    return filled(document, described)


def asked(pairs: Iterable[tuple[str, str]], described: Any) -> Message:
    """The message that a query stands for: a field to a name, and a name again for each further
    value of a list."""
    given: dict[str, list[str]] = {}
    for name, value in pairs:
        given.setdefault(name, []).append(value)
    lists = {name for name, field in _fields(described).items() if field.is_repeated}
    document = {
        name: values if name in lists or len(values) > 1 else values[0]
        for name, values in given.items()
    }
    return filled(document, described)


def filled(document: Any, described: Any) -> Message:
    """The message that a document stands for. Invalid names whatever does not fit."""
    values: list[_Value] = []
    wrong: list[Violation] = []
    for each in _walked(document, described, ""):
        if isinstance(each, _Value):
            values.append(each)
        elif len(wrong) < VIOLATIONS:
            wrong.append(each)
        else:
            break
    if wrong:
        raise _misfit(wrong, described)
    message: Message = GetMessageClass(described)()
    try:
        json_format.ParseDict(document, message)
    except json_format.ParseError as error:
        blamed = (each.violation() for each in values if not each.fits())
        raise _misfit(list(islice(blamed, VIOLATIONS)), described) from error
    return message


def _walked(document: Any, described: Any, place: str) -> Iterator[Violation | _Value]:
    """Every value in a document, and whatever has no place in it."""
    if not isinstance(document, dict):
        yield Violation(field=place or described.name, description="must be an object")
        return
    fields, met = _fields(described), set()
    for name, value in document.items():
        field, here = fields.get(name), f"{place}.{_shown(name)}" if place else _shown(name)
        if field is None:
            yield Violation(field=here, description=f"is no field of {described.name}")
        elif field.number in met:
            yield Violation(field=here, description="is given under two names")
        elif value is None:  # the same as left out
            continue
        elif field.is_repeated and not isinstance(value, list):
            yield Violation(field=here, description="must be a list")
        else:
            yield from _inside(field, value, here)
        met.add(field.number if field else None)


def _inside(field: Any, value: Any, place: str) -> Iterator[Violation | _Value]:
    each = [(place, value)]
    if field.is_repeated:
        each = [(f"{place}[{index}]", inner) for index, inner in enumerate(value)]
    for here, inner in each:
        if field.message_type is not None:
            yield from _walked(inner, field.message_type, here)
        else:
            yield _Value(here, field, inner)


@cache
def _fields(described: Any) -> dict[str, Any]:
    """The fields of a message by each name that they may be given under."""
    return {name: field for field in described.fields for name in (field.json_name, field.name)}


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object of a document. JSON lets a name stand in it twice; which counts, nobody knows."""
    found = dict(pairs)
    if len(found) != len(pairs):
        [(twice, _)] = Counter(name for name, _ in pairs).most_common(1)
        wrong = Violation(field=_shown(twice), description="stands twice in one object")
        raise _misfit([wrong], None)
    return found


def _shown(name: str) -> str:
    """A name as its sender chose it, so that it can be told: JSON can spell what no text holds."""
    return name[:NAME_LENGTH].encode(errors="replace").decode()


def _misfit(wrong: list[Violation], described: Any) -> Invalid:
    if not wrong:
        return _malformed(f"the request is no {described.name}", described)
    first = wrong[0]
    error = _malformed(f"{first.field}: {first.description}", described)
    error.violations = tuple(wrong)
    return error


def _malformed(message: str, described: Any) -> Invalid:
    return Invalid(
        message,
        subject=described.full_name if described is not None else "",
        reason="MALFORMED_REQUEST",
        do="send the fields that the contract says, under its names",
    )

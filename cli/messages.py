"""Messages of the edge contract as people type and read them: parts by their dotted names, and the
words of enums in any spelling."""

from typing import Any

from cli.complaints import Code, Complaint
from cli.printing import Document


def put(message: Any, path: str, text: str, typed: str = "") -> None:
    """Set one part of a message to what was typed for it, under the name by which it is typed."""
    *above, last = path.split(".")
    for name in above:
        message = getattr(message, name)
    field = message.DESCRIPTOR.fields_by_name[last]
    setattr(message, last, _value(field, text, typed or field.name))


def number(described: Any, path: str) -> str:
    """A part's path as the contract writes it, by numbers."""
    numbers = []
    for name in path.split("."):
        field = described.fields_by_name[name]
        numbers.append(str(field.number))
        described = field.message_type
    return ".".join(numbers)


def plain(message: Any) -> Document:
    """All of a message under the contract's names, what is empty too; the mask is left out."""
    return {
        field.name: _plain(field, getattr(message, field.name))
        for field in message.DESCRIPTOR.fields
        if field.name != "fields"
    }


def at(document: Document, path: str) -> Any:
    """One part of such a document."""
    found: Any = document
    for name in path.split("."):
        found = found[name]
    return found


def shown(described: Any, document: Document, path: str) -> Any:
    """One part of such a document for people: of an enum's word only what tells it from others."""
    *above, last = path.split(".")
    for name in above:
        described = described.fields_by_name[name].message_type
    found, enum = at(document, path), described.fields_by_name[last].enum_type
    if enum is None or not isinstance(found, str):
        return found
    short = found.removeprefix(enum.name)
    return found if short == found else short.lower()


def _plain(field: Any, value: Any) -> Any:
    if field.message_type and field.message_type.GetOptions().map_entry:
        return dict(value)
    if field.is_repeated:
        return [_single(field, each) for each in value]
    return _single(field, value)


def _single(field: Any, value: Any) -> Any:
    if field.message_type:
        return plain(value)
    if field.enum_type:
        known = field.enum_type.values_by_number.get(value)
        return _camel(known.name) if known else value
    return value


def _value(field: Any, text: str, typed: str) -> Any:
    if field.enum_type:
        return _word(field, text, typed)
    if field.cpp_type == field.CPPTYPE_STRING:
        return text
    try:
        if field.cpp_type == field.CPPTYPE_BOOL:
            return {"true": True, "false": False}[text.lower()]
        return float(text) if field.cpp_type == field.CPPTYPE_DOUBLE else int(text)
    except (KeyError, ValueError):
        raise Complaint(f"{typed} cannot be {text!r}", Code.USAGE) from None


def _word(field: Any, text: str, named: str) -> int:
    """The number of an enum's word: the number itself, the whole word in any spelling, or as much
    of its end as no other has."""
    if text.isdecimal():
        return int(text)
    typed = _spelt(text)
    words = {_spelt(value.name): value.number for value in field.enum_type.values}
    ends = [found for word, found in words.items() if typed and word.endswith(typed)]
    if typed in words:
        return int(words[typed])
    if len(ends) == 1:
        return int(ends[0])
    known = ", ".join(_camel(value.name) for value in field.enum_type.values)
    raise Complaint(f"{named} cannot be {text!r}", Code.USAGE, do=f"use one of {known}")


def _spelt(word: str) -> str:
    return word.replace("_", "").replace("-", "").lower()


def _camel(name: str) -> str:
    return "".join(part.capitalize() for part in name.split("_"))

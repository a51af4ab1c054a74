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


def fill(message: Any, document: Any, above: str = "") -> list[str]:
    """Write into a message what a file says, under the names that `plain` gives. Returns the paths
    of all that is said; a list counts as one."""
    if not isinstance(document, dict):
        raise Complaint(f"{above or message.DESCRIPTOR.name} has to be a mapping", Code.USAGE)
    said: list[str] = []
    for name, value in document.items():
        path = f"{above}.{name}" if above else str(name)
        field = message.DESCRIPTOR.fields_by_name.get(name)
        if field is None or path == "fields":
            raise Complaint(f"{message.DESCRIPTOR.name} has no {path}", Code.USAGE)
        if field.is_repeated:
            _extend(getattr(message, name), field, value, path)
        elif field.message_type:
            said += fill(getattr(message, name), value, path)
            continue
        else:
            _set(message, field, value, path)
        said.append(path)
    return said


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


def _extend(into: Any, field: Any, values: Any, path: str) -> None:
    if not isinstance(values, list):
        raise Complaint(f"{path} has to be a list", Code.USAGE)
    for value in values:
        if field.message_type:
            fill(into.add(), value, path)
        else:
            into.append(_read(field, value, path))


def _set(message: Any, field: Any, value: Any, path: str) -> None:
    try:
        setattr(message, field.name, _read(field, value, path))
    except ValueError:
        raise Complaint(f"{path} cannot be {value!r}", Code.USAGE) from None


def _read(field: Any, value: Any, path: str) -> Any:
    """A value as YAML read it. Text has to be text there: `1.10` without quotes is 1.1."""
    if field.cpp_type == field.CPPTYPE_STRING and not isinstance(value, str):
        do = "write it in quotes"
        raise Complaint(f"{path} is text and cannot be {value!r}", Code.USAGE, do=do)
    return _value(field, str(value), path)


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

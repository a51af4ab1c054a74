"""Messages as JSON in the words of the first gateway: fields by their names in the contract, empty
ones too, and enums in one word each, such as `IpAccessShared`. Read are enums in any spelling;
fields that the contract does not have are passed over, as its first gateway did."""

from typing import Any

from google.protobuf import json_format
from google.protobuf.message import Message


def camel(name: str) -> str:
    """An enum's value in one word."""
    return "".join(part.capitalize() for part in name.split("_"))


def plain(message: Message) -> Any:
    document = json_format.MessageToDict(
        message, preserving_proto_field_name=True, always_print_fields_with_no_presence=True
    )
    return _each_enum(document, message.DESCRIPTOR, _said)


def spelt(document: Any, described: Any) -> Any:
    """A document with its enums as the contract spells them, without the fields that it does not
    have. What is no word of an enum stays."""
    return _each_enum(document, described, _meant)


def _each_enum(document: Any, described: Any, change: Any) -> Any:
    if not isinstance(document, dict):
        return document
    fields = {field.name: field for field in described.fields}
    fields |= {field.json_name: field for field in described.fields}
    return {
        name: _changed(value, fields[name], change)
        for name, value in document.items()
        if name in fields
    }


def _changed(value: Any, field: Any, change: Any) -> Any:
    if isinstance(value, list):
        return [_changed(each, field, change) for each in value]
    if field.enum_type is not None:
        return change(value, field.enum_type)
    message = field.message_type
    if (
        message is None
        or message.GetOptions().map_entry
        or message.file.package == "google.protobuf"
    ):
        return value
    return _each_enum(value, message, change)


def _said(value: Any, _enum: Any) -> Any:
    return camel(value) if isinstance(value, str) else value


def _meant(value: Any, enum: Any) -> Any:
    if not isinstance(value, str):
        return value
    words = {_bare(name): name for name in enum.values_by_name}
    return words.get(_bare(value), value)


def _bare(name: str) -> str:
    return name.replace("_", "").lower()

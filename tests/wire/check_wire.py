"""Compare an implementation's protobuf descriptors with the recorded wire facts.

    check_wire.py WIRE_DIR descriptors.bin [more.bin ...]
    check_wire.py WIRE_DIR --module pkg.kaas_pb2 --module pkg.rkt_pb2 [--only kaas,rkt]

Every package, service, method, message, field, enum and enum value recorded in
WIRE_DIR/*.json must exist and be equal: streaming and input/output types of methods;
number, type, label and oneof of fields; numbers of enum values.  File paths are not
compared, they are not on the wire.  What the implementation has beyond the record,
inside the recorded packages, is listed as "extra" and is not a failure.

Descriptor files are FileDescriptorSets (protoc --descriptor_set_out); several may be
given, so two APIs whose files share a path can still be checked in one run.

Exit status: 0 all equal, 1 mismatches, 2 nothing to compare or bad usage.
"""

import argparse
import importlib
import json
import pathlib
import sys
from collections.abc import Iterator, Sequence
from typing import Any

from google.protobuf import descriptor_pb2

FDP = descriptor_pb2.FieldDescriptorProto
Facts = Iterator[tuple[str, str]]
LABELS = {
    FDP.LABEL_OPTIONAL: "optional",
    FDP.LABEL_REQUIRED: "required",
    FDP.LABEL_REPEATED: "repeated",
}


def field_fact(
    number: int,
    label: str,
    type_: str,
    map_key: str | None = None,
    map_value: str | None = None,
    oneof: str | None = None,
) -> str:
    what = f"map<{map_key}, {map_value}>" if label == "map" else f"{label} {type_}"
    return f"{number} {what}" + (f" oneof {oneof}" if oneof else "")


def method_fact(input_: str, output: str, client_streaming: bool, server_streaming: bool) -> str:
    return "{}{} -> {}{}".format(
        "stream " * client_streaming, input_, "stream " * server_streaming, output
    )


def recorded_facts(file: dict[str, Any]) -> Facts:
    """Yield (key, fact) for one entry of "files" in a wire JSON."""
    yield f"package {file['package']}", "present"
    for message in file["messages"]:
        yield f"message {message['name']}", "present"
        for f in message["fields"]:
            yield (
                f"field {message['name']}.{f['name']}",
                field_fact(
                    f["number"],
                    f["label"],
                    f["type"],
                    f.get("map_key"),
                    f.get("map_value"),
                    f.get("oneof"),
                ),
            )
    for enum in file["enums"]:
        yield f"enum {enum['name']}", "present"
        for name, number in enum["values"].items():
            yield f"value {enum['name']}.{name}", str(number)
    for service in file["services"]:
        yield f"service {service['name']}", "present"
        for m in service["methods"]:
            yield (
                f"method {service['name']}/{m['name']}",
                method_fact(m["input"], m["output"], m["client_streaming"], m["server_streaming"]),
            )


def type_of(field: descriptor_pb2.FieldDescriptorProto) -> str:
    if field.type == FDP.TYPE_GROUP:
        return "group " + field.type_name.lstrip(".")
    return field.type_name.lstrip(".") or FDP.Type.Name(field.type)[len("TYPE_") :].lower()


def enum_facts(enum: descriptor_pb2.EnumDescriptorProto, scope: str) -> Facts:
    name = scope + enum.name
    yield f"enum {name}", "present"
    for value in enum.value:
        yield f"value {name}.{value.name}", str(value.number)


def message_facts(message: descriptor_pb2.DescriptorProto, scope: str) -> Facts:
    name = scope + message.name
    yield f"message {name}", "present"
    entries = {f"{name}.{n.name}": n for n in message.nested_type if n.options.map_entry}
    for field in message.field:
        type_, label, key, value, oneof = type_of(field), LABELS[field.label], None, None, None
        if type_ in entries:
            label, (key, value) = "map", map(type_of, entries[type_].field)
        if field.HasField("oneof_index") and not field.proto3_optional:
            oneof = message.oneof_decl[field.oneof_index].name
        yield (
            f"field {name}.{field.name}",
            field_fact(field.number, label, type_, key, value, oneof),
        )
    for nested in message.nested_type:
        yield from message_facts(nested, name + ".")
    for enum in message.enum_type:
        yield from enum_facts(enum, name + ".")


def implemented_facts(file: descriptor_pb2.FileDescriptorProto) -> Facts:
    """Yield (key, fact) for one FileDescriptorProto."""
    scope = file.package + "." if file.package else ""
    yield f"package {file.package}", "present"
    for message in file.message_type:
        yield from message_facts(message, scope)
    for enum in file.enum_type:
        yield from enum_facts(enum, scope)
    for service in file.service:
        yield f"service {scope}{service.name}", "present"
        for m in service.method:
            yield (
                f"method {scope}{service.name}/{m.name}",
                method_fact(
                    m.input_type.lstrip("."),
                    m.output_type.lstrip("."),
                    m.client_streaming,
                    m.server_streaming,
                ),
            )


def files_of_modules(names: Sequence[str]) -> Iterator[descriptor_pb2.FileDescriptorProto]:
    todo = [importlib.import_module(n).DESCRIPTOR for n in names]
    seen: set[str] = set()
    while todo:
        descriptor = todo.pop()
        if descriptor.name in seen:
            continue
        seen.add(descriptor.name)
        todo.extend(descriptor.dependencies)
        file = descriptor_pb2.FileDescriptorProto()
        descriptor.CopyToProto(file)
        yield file


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("wire_dir", type=pathlib.Path)
    parser.add_argument("descriptor_sets", nargs="*", type=pathlib.Path)
    parser.add_argument(
        "--module", action="append", default=[], help="importable *_pb2 module; repeatable"
    )
    parser.add_argument(
        "--only", help="comma-separated names of the JSON files to check, without .json"
    )
    args = parser.parse_args(argv)

    only = set(args.only.split(",")) if args.only else None
    expected: dict[str, str] = {}
    packages: set[str] = set()
    used: set[str] = set()
    for path in sorted(args.wire_dir.glob("*.json")):
        if only is None or path.stem in only:
            used.add(path.stem)
            for file in json.loads(path.read_text())["files"]:
                packages.add(file["package"])
                expected.update(recorded_facts(file))
    if not expected or (only or set()) - used:
        parser.error(f"no such wire facts in {args.wire_dir}: {args.only or '*.json'}")
    if not (args.descriptor_sets or args.module):
        parser.error("give descriptor set files or --module")

    files = list(files_of_modules(args.module))
    for path in args.descriptor_sets:
        files.extend(descriptor_pb2.FileDescriptorSet.FromString(path.read_bytes()).file)

    got: dict[str, str] = {}
    mismatches: list[str] = []
    for file in files:
        if file.package in packages:
            for key, fact in implemented_facts(file):
                if got.setdefault(key, fact) != fact:
                    mismatches.append(f"{key}: defined twice, as {got[key]} and as {fact}")
    for key, fact in expected.items():
        if key not in got:
            mismatches.append(f"{key}: missing, expected {fact}")
        elif got[key] != fact:
            mismatches.append(f"{key}: expected {fact}, got {got[key]}")

    for line in mismatches:
        print(line)
    for key in sorted(got.keys() - expected.keys()):
        print(f"extra {key}: {got[key]}")
    print(f"{len(expected)} checked, {len(mismatches)} mismatches")
    return 1 if mismatches else 0


if __name__ == "__main__":
    sys.exit(main())

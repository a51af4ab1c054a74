"""`windlass certs init`: a certificate authority to try encryption out with."""

import os
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cli.calling import Call, command, group
from cli.complaints import Code, Complaint

if TYPE_CHECKING:
    from cryptography import x509
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey
    from cryptography.hazmat.primitives.hashes import SHA256

certs = group("Certificates to try out with.")

DAYS = 90


@certs.command("init")
@command
async def init(
    call: Call,
    folder: Annotated[
        Path, typer.Argument(metavar="FOLDER", help="Where they are put; it must be empty.")
    ],
    host: Annotated[
        list[str] | None,
        typer.Option("--host", metavar="NAME", help="Where the server is reached. Repeatable."),
    ] = None,
    user: Annotated[
        list[str] | None,
        typer.Option("--user", metavar="NAME", help="A client's certificate for this user, too."),
    ] = None,
) -> None:
    """Make an authority of one's own, and certificates by it.

    For trying out: whoever has the folder can pass for anybody. They are good for 90 days."""
    if folder.exists() and any(folder.iterdir()):
        raise Complaint(f"{folder} is not empty", Code.USAGE, do="name another folder")
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    authority = _Authority()
    authority.write(folder / "ca")
    names = ["localhost", "127.0.0.1", "::1", *(host or ())]
    authority.issue(folder / "server", "windlass", [_named(name) for name in names])
    for name in user or ():
        from cryptography import x509

        its = x509.UniformResourceIdentifier(f"windlass://user/{name}")
        authority.issue(folder / name, name, [its])
    call.page.say(
        f"export WINDLASS_TLS__CERTIFICATE={folder}/server.crt\n"
        f"export WINDLASS_TLS__KEY={folder}/server.key\n"
        f"export WINDLASS_CA={folder}/ca.crt"
    )
    for name in user or ():
        call.page.say(
            f"# for {name}, where WINDLASS_TLS__CLIENT_CA={folder}/ca.crt:\n"
            f"export WINDLASS_CERT={folder}/{name}.crt WINDLASS_KEY={folder}/{name}.key"
        )


class _Authority:
    """A key that signs certificates."""

    def __init__(self) -> None:
        from cryptography import x509

        self._key = _key()
        self._name = _name("Windlass, for trying out")
        ours = x509.BasicConstraints(ca=True, path_length=0)
        self._certificate = (
            self._begun(self._name, self._key)
            .add_extension(ours, critical=True)
            .sign(self._key, _sha256())
        )

    def write(self, path: Path) -> None:
        _write(path, self._certificate, self._key)

    def issue(self, path: Path, name: str, names: "list[x509.GeneralName]") -> None:
        """Write a new certificate for these names, and its key."""
        from cryptography import x509

        key = _key()
        certificate = (
            self._begun(_name(name), key)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(x509.SubjectAlternativeName(names), critical=False)
            .sign(self._key, _sha256())
        )
        _write(path, certificate, key)

    def _begun(
        self, subject: "x509.Name", key: "EllipticCurvePrivateKey"
    ) -> "x509.CertificateBuilder":
        from cryptography import x509

        moment = datetime.now(UTC)
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(moment - timedelta(minutes=5))
            .not_valid_after(moment + timedelta(days=DAYS))
        )


def _key() -> "EllipticCurvePrivateKey":
    from cryptography.hazmat.primitives.asymmetric import ec

    return ec.generate_private_key(ec.SECP256R1())


def _name(common: str) -> "x509.Name":
    from cryptography import x509

    return x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, common)])


def _named(host: str) -> "x509.GeneralName":
    from cryptography import x509

    try:
        return x509.IPAddress(ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _sha256() -> "SHA256":
    from cryptography.hazmat.primitives.hashes import SHA256

    return SHA256()


def _write(path: Path, certificate: "x509.Certificate", key: "EllipticCurvePrivateKey") -> None:
    from cryptography.hazmat.primitives import serialization as form

    secret = key.private_bytes(form.Encoding.PEM, form.PrivateFormat.PKCS8, form.NoEncryption())
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
    with os.fdopen(os.open(path.with_name(f"{path.name}.key"), flags, 0o600), "wb") as file:
        file.write(secret)
    path.with_name(f"{path.name}.crt").write_bytes(certificate.public_bytes(form.Encoding.PEM))

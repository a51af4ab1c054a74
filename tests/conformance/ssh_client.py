"""The OpenSSH client of the distribution against our hosts."""

from tests.conformance.environments import found, said
from tests.conformance.stage import Stage


async def prepare() -> str:
    found("ssh", "sftp", "ssh-keygen", package="openssh-client")
    return (await said("ssh", "-V")).partition(",")[0].replace("_", " ")


STAGE = Stage(
    name="ssh-client",
    proves="a foreign SSH client logs in, runs, copies, and notices a changed host key",
    prepare=prepare,
    tests=("tests/sim/hosts/test_openssh.py",),
)

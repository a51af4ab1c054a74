"""python-libmaas, which others wrote for MAAS, against our region."""

from tests.conformance.environments import LIBMAAS, installed, said
from tests.conformance.stage import Stage

_VERSION = "import importlib.metadata as them; print(them.version('python-libmaas'))"


async def prepare() -> str:
    await installed(LIBMAAS)
    return f"python-libmaas {await said(LIBMAAS / 'python', '-c', _VERSION)}"


STAGE = Stage(
    name="maas-client",
    proves="a foreign MAAS client lists, allocates, deploys and releases on the simulated region",
    prepare=prepare,
    tests=("tests/sim/maas/test_libmaas.py",),
)

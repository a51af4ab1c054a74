"""What is done, step by step, and what takes it back. Deterministic, and without hands of its own.

Workflow modules are loaded once per workflow by Temporal's sandbox. What they import from outside
this room is passed through instead of loaded again: it costs 2.6 ms a workflow so, and 190 ms
otherwise. So are the numbers of this room, which nobody changes. This is the only such list."""

from temporalio.worker.workflow_sandbox import SandboxedWorkflowRunner, SandboxRestrictions

PASSED_THROUGH = (
    "activities",
    "domain",
    "store",
    "sqlalchemy",
    "pydantic",
    "pydantic_core",
    "annotated_types",
    "structlog",
    "workflows.policies",
)


def runner() -> SandboxedWorkflowRunner:
    """The sandbox all our workers run workflows in."""
    restrictions = SandboxRestrictions.default.with_passthrough_modules(*PASSED_THROUGH)
    return SandboxedWorkflowRunner(restrictions=restrictions)

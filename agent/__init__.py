"""Programs that stand beside what they look after: the agent of a node, the resource manager of a
cloudlet."""

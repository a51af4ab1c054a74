"""The names of what our own programs say beside the messages of the first contracts, which have no
fields for it. What opens an agent or a registry is named in `domain/agents.py` and
`domain/registries.py`."""

POOL, WORKLOAD, COMMAND = "windlass-pool", "windlass-workload", "windlass-command"
"""The pool of a node, or the one an instance keeps to; what it is a copy of; and what it runs
instead of what its image says."""

RESTART = "windlass-restart"
"""When an instance is run again."""

INCARNATION, TENANT, HEALTH = "windlass-incarnation", "windlass-tenant", "windlass-health"
"""Which copy of an instance is meant, whose it is, and how to find out whether it works."""

OWNER = "windlass-owner"
"""What an instance or a cluster was made for, as its maker wrote it down. Whoever finds one under a
name of its own compares this before it takes that for its own."""

KEEP = "windlass-keep"
"""Whether what is stopped is kept."""

ADDRESS, LABELS, RUNTIME = "windlass-agent-address", "windlass-labels", "windlass-runtime"
"""Where a node's agent is reached, what instances can ask of the node, and what carries them."""

ENCRYPTED = "windlass-agent-encrypted"
"""Whether the agent is reached by TLS, with the certificate that its node registers with."""

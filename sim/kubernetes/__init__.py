"""The Kubernetes API, served over HTTPS on every control-plane host.

Read `servers`, `requests`, `objects` and `kinds`; then what is stored (`shelves`, `admission`,
`patches`, `apply`, `addons`), what follows from it (`view`, `nodes`, `pods`, `budgets`), and how it
is told (`selectors`, `tables`, `history`, `watch`, `errors`, `protobuf`)."""

from sim.kubernetes.servers import SimulatedApiServers

__all__ = ["SimulatedApiServers"]

"""The kaas contract: Kubernetes clusters on bare metal."""

"""Pods as containers of podman, over the REST API of a service of the node's own."""

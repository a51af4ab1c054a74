"""The edge contract, `edgeproto`: apps and clusters on cloudlets."""

"""Windlass's own contract with its nodes, as far as the control plane serves it: their reports."""

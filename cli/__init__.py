"""The `windlass` command: a caller of the API like any other, for people and for scripts."""

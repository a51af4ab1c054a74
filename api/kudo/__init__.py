"""The scheduler contract: nodes offer room, instances take it."""

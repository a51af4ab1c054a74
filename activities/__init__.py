"""Idempotent verbs over ports (hands) and over our own rows (books)."""

"""The contracts as text, one folder each, and the Python made from them in `gen`."""

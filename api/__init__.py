"""The doors: contracts come in here, become words of the domain, and go out again as replies."""

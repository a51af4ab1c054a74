"""The PublicAPI of rkt: reads pods, images, events and logs, of the fleet or of one node."""

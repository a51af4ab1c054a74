"""What things are and what may happen to them. No I/O, no clock, no chance."""

"""Beam wiring: route Arrow batches, the unit of work, into the pure functions."""

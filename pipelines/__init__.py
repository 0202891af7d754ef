"""Modules with one job each: typed options in, a Beam pipeline graph out."""

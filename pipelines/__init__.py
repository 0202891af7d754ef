"""One module per job: typed options in, a Beam pipeline graph out."""

"""Reduced matrices and the estimators that read them. Pure: no files, logs or Beam."""

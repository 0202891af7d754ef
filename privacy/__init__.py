"""Privacy mechanisms, sensitivities and accounting. Pure: no files, logs or Beam."""

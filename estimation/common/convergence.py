"""The one error of every solver here."""


class ConvergenceError(RuntimeError):
    """A fit did not reach its tolerance; nothing that it computed can be used."""

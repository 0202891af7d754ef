"""Silence: the libraries of the collector log nothing."""

from __future__ import annotations

import logging

_LOGGERS = ("uvicorn", "uvicorn.error", "uvicorn.access", "asyncio")


def make_quiet() -> None:
    """Drop what the libraries would log: a peer's address and what was sent may be in it."""
    for name in _LOGGERS:
        logger = logging.getLogger(name)
        logger.handlers = [logging.NullHandler()]
        logger.propagate = False

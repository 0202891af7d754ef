"""Languages of the report. A file of its own, because the command line names them in its help."""

from __future__ import annotations

from enum import StrEnum


class Language(StrEnum):
    """Language of the report."""

    ENGLISH = "en"
    GERMAN = "de"
    SPANISH = "es"
    FRENCH = "fr"
    PORTUGUESE = "pt"

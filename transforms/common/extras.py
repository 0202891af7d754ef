"""Extras: libraries that the core does without, and one sentence where they are missing.

The core ranks files of this machine. Whatever needs more asks here, before anything is read or
spent. A library is looked for and not loaded.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from importlib.util import find_spec

from hushrank.transforms.common.schema import InputError


@dataclass(frozen=True, slots=True)
class Extra:
    """Libraries that `pip install 'hushrank[NAME]'` adds.

    Attributes:
        library: name by which people know it.
        modules: modules that are imported of it; all of them are needed.
    """

    library: str
    modules: tuple[str, ...]


EXTRAS: Mapping[str, Extra] = {
    "azure": Extra("adlfs", ("adlfs",)),
    "bigquery": Extra(
        "google-cloud-bigquery", ("google.cloud.bigquery", "google.cloud.bigquery_storage_v1")
    ),
    "collect": Extra("Starlette and uvicorn", ("starlette", "uvicorn")),
    "delta": Extra("deltalake", ("deltalake",)),
    "gcp": Extra("Beam's libraries for Dataflow", ("google.cloud.dataflow", "apitools")),
    "iceberg": Extra("pyiceberg", ("pyiceberg",)),
    "languages": Extra("Babel", ("babel",)),
    "otel": Extra(
        "the OpenTelemetry exporter",
        ("opentelemetry.sdk", "opentelemetry.exporter.otlp.proto.http"),
    ),
    "pdf": Extra("matplotlib", ("matplotlib",)),
    "report": Extra("resvg-py", ("resvg_py",)),
    "reproduce": Extra("matplotlib", ("matplotlib",)),
    "s3": Extra("s3fs", ("s3fs",)),
    "sheets": Extra("python-calamine and pyreadstat", ("python_calamine", "pyreadstat")),
}


def remedy(extra: str) -> str:
    """Say what is missing and how to get it, to follow the name of what needs it."""
    return f"needs {EXTRAS[extra].library}. Run: pip install 'hushrank[{extra}]'"


def is_installed(extra: str) -> bool:
    """Whether every module of the extra is there."""
    return all(map(_is_there, EXTRAS[extra].modules))


def lacking(extra: str, where: str) -> str | None:
    """The sentence that refuses `where` for want of the extra; None: it is installed."""
    if is_installed(extra):
        return None
    return f"{where}: {remedy(extra)}. Nothing was read or spent."


def need(extra: str, where: str) -> None:
    """Refuse an input that the extra reads, if it is not installed.

    Raises:
        InputError: the library is not installed.
    """
    if sentence := lacking(extra, where):
        raise InputError(sentence)


def _is_there(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except ImportError:  # the package that would hold it is missing
        return False

"""Rank things from people's answers without exposing any one person.

    import hushrank as hr

    release = hr.rank(battles, left="model_a", right="model_b", winner="winner", user="judge",
                      items=models, epsilon=1.0, max_contributions=20, ledger="arena.jsonl",
                      name="arena")
    release.ranking       # an Arrow table; .to_pandas(), .to_polars()
    release               # in a notebook: the ranking with interval bars
    release.report()      # the whole page

Names are loaded when they are first used, so that importing this package costs next to nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hushrank import estimation as estimation
    from hushrank import privacy as privacy
    from hushrank.flows.board.write import BoardSite as BoardSite
    from hushrank.flows.errors import ArchiveError as ArchiveError
    from hushrank.flows.errors import AuditStopped as AuditStopped
    from hushrank.flows.errors import BackupError as BackupError
    from hushrank.flows.errors import BudgetRefused as BudgetRefused
    from hushrank.flows.errors import ConfigError as ConfigError
    from hushrank.flows.errors import DrawError as DrawError
    from hushrank.flows.errors import EstimateError as EstimateError
    from hushrank.flows.errors import HushrankError as HushrankError
    from hushrank.flows.errors import Interrupted as Interrupted
    from hushrank.flows.errors import LedgerError as LedgerError
    from hushrank.flows.errors import LookStopped as LookStopped
    from hushrank.flows.errors import MethodRefused as MethodRefused
    from hushrank.flows.errors import NightOutOfTurn as NightOutOfTurn
    from hushrank.flows.errors import NightWithoutFiles as NightWithoutFiles
    from hushrank.flows.errors import PredictableBits as PredictableBits
    from hushrank.flows.errors import PublishError as PublishError
    from hushrank.flows.errors import RunInProgress as RunInProgress
    from hushrank.flows.errors import ServerRefused as ServerRefused
    from hushrank.flows.errors import UninformativeWarning as UninformativeWarning
    from hushrank.flows.interfaces.python.board import board as board
    from hushrank.flows.interfaces.python.ledger import Ledger as Ledger
    from hushrank.flows.interfaces.python.planning import Inspection as Inspection
    from hushrank.flows.interfaces.python.planning import Plan as Plan
    from hushrank.flows.interfaces.python.planning import inspect as inspect
    from hushrank.flows.interfaces.python.planning import plan as plan
    from hushrank.flows.interfaces.python.pool import next_pairs as next_pairs
    from hushrank.flows.interfaces.python.pool import pool as pool
    from hushrank.flows.interfaces.python.private_answers import privatize as privatize
    from hushrank.flows.interfaces.python.release import History as History
    from hushrank.flows.interfaces.python.release import Release as Release
    from hushrank.flows.interfaces.python.release import Report as Report
    from hushrank.flows.interfaces.python.release import history as history
    from hushrank.flows.interfaces.python.release import read_release as read_release
    from hushrank.flows.interfaces.python.run import estimate as estimate
    from hushrank.flows.interfaces.python.run import rank as rank
    from hushrank.flows.interfaces.python.run import run as run
    from hushrank.flows.interfaces.python.table import Table as Table
    from hushrank.flows.reading import ReadingError as ReadingError
    from hushrank.flows.refit.fitted import Fitted as Fitted
    from hushrank.flows.refit.next_pairs import NextPairs as NextPairs
    from hushrank.flows.refit.pooled import Pooled as Pooled

    __version__: str

_HOMES = {  # the module of each name; a test compares them with the imports above
    "hushrank.flows.board.write": ("BoardSite",),
    "hushrank.flows.errors": (
        "ArchiveError",
        "AuditStopped",
        "BackupError",
        "BudgetRefused",
        "ConfigError",
        "DrawError",
        "EstimateError",
        "HushrankError",
        "Interrupted",
        "LedgerError",
        "LookStopped",
        "MethodRefused",
        "NightOutOfTurn",
        "NightWithoutFiles",
        "PredictableBits",
        "PublishError",
        "RunInProgress",
        "ServerRefused",
        "UninformativeWarning",
    ),
    "hushrank.flows.interfaces.python.board": ("board",),
    "hushrank.flows.interfaces.python.ledger": ("Ledger",),
    "hushrank.flows.interfaces.python.planning": (
        "Inspection",
        "Plan",
        "inspect",
        "plan",
    ),
    "hushrank.flows.interfaces.python.pool": (
        "next_pairs",
        "pool",
    ),
    "hushrank.flows.interfaces.python.private_answers": ("privatize",),
    "hushrank.flows.interfaces.python.release": (
        "History",
        "Release",
        "Report",
        "history",
        "read_release",
    ),
    "hushrank.flows.interfaces.python.run": (
        "estimate",
        "rank",
        "run",
    ),
    "hushrank.flows.interfaces.python.table": ("Table",),
    "hushrank.flows.reading": ("ReadingError",),
    "hushrank.flows.refit.fitted": ("Fitted",),
    "hushrank.flows.refit.next_pairs": ("NextPairs",),
    "hushrank.flows.refit.pooled": ("Pooled",),
}
_MODULES = {name: home for home, names in _HOMES.items() for name in names}
_PACKAGES = ("estimation", "privacy")

__all__ = [  # noqa: PLE0604, RUF100 - the names that `_MODULES` and `_PACKAGES` hold
    "ArchiveError",
    "AuditStopped",
    "BackupError",
    "BoardSite",
    "BudgetRefused",
    "ConfigError",
    "DrawError",
    "EstimateError",
    "Fitted",
    "History",
    "HushrankError",
    "Inspection",
    "Interrupted",
    "Ledger",
    "LedgerError",
    "LookStopped",
    "MethodRefused",
    "NextPairs",
    "NightOutOfTurn",
    "NightWithoutFiles",
    "Plan",
    "Pooled",
    "PredictableBits",
    "PublishError",
    "ReadingError",
    "Release",
    "Report",
    "RunInProgress",
    "ServerRefused",
    "Table",
    "UninformativeWarning",
    "__version__",
    "board",
    "estimate",
    "estimation",
    "history",
    "inspect",
    "next_pairs",
    "plan",
    "pool",
    "privacy",
    "privatize",
    "rank",
    "read_release",
    "run",
]


if not TYPE_CHECKING:  # to a checker, a name that is not above is an error

    def __getattr__(name: str) -> Any:
        """The name, loaded now (PEP 562)."""
        if name == "__version__":
            from importlib.metadata import version

            value: Any = version("hushrank")
        elif name in _PACKAGES:
            value = import_module(f"hushrank.{name}")
        elif name in _MODULES:
            value = getattr(import_module(_MODULES[name]), name)
        else:
            raise AttributeError(f"module 'hushrank' has no attribute {name!r}")
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    return sorted(__all__)

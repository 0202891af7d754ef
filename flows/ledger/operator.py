"""Who runs a command: the account by the operating system, and what only the environment claims."""

from __future__ import annotations

import os
from collections.abc import Mapping

from hushrank.transforms import system
from hushrank.transforms.common.plain_text import short

# Anybody can set these before a command; sudo sets the last one for the person who called it.
CLAIMS = ("LOGNAME", "USER", "USERNAME", "SUDO_USER")


def operator_name(environment: Mapping[str, str] | None = None) -> str:
    """Name of the account that runs this process, as a ledger and an audit log record it.

    The operating system names it by the process's user id, so the process cannot choose it. A
    variable of the environment that names somebody else is added as a claim:
    `root (SUDO_USER says ada)`.

    Args:
        environment: the variables; None: those of this process.
    """
    variables = os.environ if environment is None else environment
    account = system.account_name()
    own = {account, account.rpartition("\\")[2]}  # Windows writes the domain before it
    for variable in reversed(CLAIMS):
        claimed = short(variables.get(variable, ""))
        if claimed and claimed not in own:
            return f"{account} ({variable} says {claimed})"
    return account

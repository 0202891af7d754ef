"""Who runs a command: the account by the operating system, and what only the environment claims."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Sequence
from functools import lru_cache

from hushrank.transforms import system
from hushrank.transforms.common.plain_text import short
from hushrank.transforms.storage.cloud_accounts import (
    KEPT_SECONDS,
    SECONDS,
    account_text,
    accounts_of,
    claim,
    is_of_the_machine,
    within,
)

# Anybody can set these before a command; sudo sets the last one for the person who called it.
CLAIMS = ("LOGNAME", "USER", "USERNAME", "SUDO_USER")
FLOW_RUN = "PREFECT__FLOW_RUN_ID"  # a worker sets it for what it starts
PREFECT_CLOUD = "https://api.prefect.cloud/"


def operator_name(places: Sequence[str] = ()) -> str:
    """Name of the account that runs this process, as a ledger and an audit log record it.

    The operating system names it by the process's user id, so the process cannot choose it. Who
    the process is to the clouds of `places`, and who had Prefect start it, follows in brackets. A
    variable of the environment that names somebody else, or a server that anybody may run, is added
    as a claim: `root (SUDO_USER says ada; Google Cloud: runner@survey.iam.gserviceaccount.com)`.

    Args:
        places: paths and URLs that the process reads or writes.
    """
    account = system.account_name()
    own = {account, account.rpartition("\\")[2]}  # Windows writes the domain before it
    claimed = ((each, short(os.environ.get(each, ""))) for each in reversed(CLAIMS))
    others = [claim(variable, name) for variable, name in claimed if name and name not in own]
    told = [*others[:1], *accounts_of(places), *filter(None, [prefect_text()])]
    return f"{account} ({'; '.join(told)})" if told else account


def prefect_text() -> str:
    """Who had Prefect make this run; empty: there is no run, or it began here.

    Prefect Cloud knows its users. Another server has none, so what it says is a claim. So is the
    number of a run in the environment, where no flow is running: anybody can set that of another.
    """
    if "prefect.context" in sys.modules:  # which takes seconds: a flow has loaded it
        from prefect.context import FlowRunContext, TaskRunContext
        from prefect.runtime import flow_run

        if FlowRunContext.get() or TaskRunContext.get():
            return _maker_of(f"{flow_run.id}", int(time.monotonic() / KEPT_SECONDS))
    run = os.environ.get(FLOW_RUN)
    return claim(FLOW_RUN, run) if run else ""


@lru_cache(maxsize=4)
def _maker_of(_run: str, _lately: int) -> str:
    found = within(SECONDS, _maker)
    return "Prefect user unknown" if found is None else found


def _maker() -> str:
    """Return the maker of the run that no other run started."""
    from prefect.client.orchestration import get_client
    from prefect.runtime import flow_run

    with get_client(sync_client=True) as client:
        run = client.read_flow_run(flow_run.root_flow_run_id)
        address = f"{client.api_url}"
    made = run.created_by
    words = () if made is None else ((made.type or "").lower(), made.display_value)
    maker = " ".join(filter(None, words))
    if address.startswith(PREFECT_CLOUD) and maker and _trusts_the_machine():
        return f"Prefect Cloud: {account_text(maker)}"
    if run.deployment_id is None and not maker:
        return ""
    by = f" by {maker}" if maker else ""
    return claim("Prefect", f"flow run {run.name}{by}")


def _trusts_the_machine() -> bool:
    """Whether Prefect's client trusts no other certificates than those of the machine."""
    from prefect.settings import PREFECT_API_SSL_CERT_FILE, PREFECT_API_TLS_INSECURE_SKIP_VERIFY

    named = PREFECT_API_SSL_CERT_FILE.value()  # as SSL_CERT_FILE, unless it is set
    own = not named or is_of_the_machine(named)
    return own and not PREFECT_API_TLS_INSECURE_SKIP_VERIFY.value()

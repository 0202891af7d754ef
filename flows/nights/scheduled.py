"""The flow that a schedule starts: every night that is due, one after the other.

Prefect finds it under the name `hushrank.flows.nights.scheduled.nights`, in whatever process or
container a worker starts, so this module loads Prefect at once; nothing else imports it early.
"""

from __future__ import annotations

import logging
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from prefect import flow, get_run_logger, runtime
from prefect.client.schemas.objects import State

from hushrank.flows.config.schedule import day_of
from hushrank.flows.nights.flow import Kept, run_in_flow
from hushrank.flows.nights.nights import NightStatus, night_text, rank_due, rank_nights
from hushrank.flows.reading import Reducer
from hushrank.flows.run.context import Job
from hushrank.flows.run.job import read_survey
from hushrank.flows.run.stages import Outcome, directly
from hushrank.flows.terminal import stop_as_ctrl_c
from hushrank.transforms.common.plain_text import shown

FLOW, ENTRYPOINT = "nights", "hushrank.flows.nights.scheduled.nights"


@flow(name=FLOW, persist_result=False, retries=0)
def nights(survey: str, night: str | None = None, anyway: bool = False) -> State[Any]:
    """Rank what is due at the time for which this run was scheduled, however late it starts.

    Args:
        survey: absolute path of the YAML file, where the run takes place.
        night: a date such as 2026-11-20; only this night then.
        anyway: accept a delta above the limit.

    Returns:
        A failed state, with a text that a person can act on, where the run failed: what a flow
        raises Prefect would pickle.
    """
    stop_as_ctrl_c()
    return Kept(lambda: _rank(survey, night, anyway)).state()


def _rank(survey: str, night: str | None, anyway: bool) -> None:
    logger = get_run_logger()
    with Reducer() as reducer:

        def execute(job: Job) -> Outcome:
            return run_in_flow(job, reducer, directly, lambda note: logger.warning(shown(note)))

        checked = read_survey(Path(survey), anyway=anyway)
        if night is None:
            results = rank_due(checked, _scheduled_for(), execute)
        else:
            day = day_of(night, "parameter night")
            results = rank_nights(checked, [day], datetime.now(UTC), execute)
        found = None
        for found in results:
            failed = found.status is NightStatus.FAILED
            text = shown(night_text(found), lines=True)
            logger.log(logging.WARNING if failed else logging.INFO, text)
        if found is None:
            logger.info("No night is due. Nothing was read or spent.")


def _scheduled_for() -> datetime:
    """When this run was to start; a run that nobody scheduled was to start now."""
    planned = runtime.flow_run.scheduled_start_time
    return datetime.now(UTC) if planned is None else planned

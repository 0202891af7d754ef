"""What stops every run with a ledger, whatever the run costs: one list for all who ask."""

from __future__ import annotations

from hushrank.flows.config.survey import SurveyConfig
from hushrank.flows.ledger.key import InputNames
from hushrank.flows.ledger.ledger import Ledger
from hushrank.flows.recovery.witness import require_remembered
from hushrank.flows.run.confidential_folder import check_confidential
from hushrank.privacy.accounting import Spend


def check_ledger(
    config: SurveyConfig, ledger: Ledger, inputs: InputNames, spend: Spend | None = None
) -> None:
    """Raise what a run would be refused with because of its ledger, and record nothing.

    That is: lines, length, signature and anchor; the key and its permissions; folders and locks;
    the clock; what the confidential folder and the archive remember; and other names that read the
    same input.

    Args:
        config: configuration of the job.
        ledger: the job's ledger.
        inputs: names of the job's input under the present key.
        spend: what the job costs; None: nothing.

    Raises:
        BudgetRefused: the ledger does not hold `spend`.
        HushrankError: anything else; the text says how to put it right.
    """
    check_confidential(config.confidential)
    require_remembered(config, ledger, inputs.plain)
    ledger.check(spend, inputs)
    ledger.backend.check_writable()

"""The command line that Terraform would schedule, taken from its file and run here."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime, timedelta

import pyarrow.parquet as pq
import pytest

from tests.flows.conftest import answers

MOUNT = "/survey"


@pytest.fixture
def scheduled(checkout, survey) -> list[str]:
    """The container's command and arguments, with the folder of `survey` where the bucket is."""
    folder = checkout / "infra" / "terraform"
    text = (folder / "schedule.tf").read_text()
    (command,) = re.findall(r"^ +command = (\[.*?\])", text, re.M)
    (arguments,) = re.findall(r"^ +args +=\s*(\[.*?\])(?:\s|$)", text, re.M)
    (mounted,) = re.findall(r'^ +mount_path = "(.*)"', text, re.M)
    assert mounted == MOUNT
    variables = (folder / "variables.tf").read_text()
    (name,) = re.findall(r'variable "survey" \{.*?default += "(.*?)"', variables, re.S)
    words = [
        word.replace("${var.survey}", name) for word in json.loads(command) + json.loads(arguments)
    ]
    assert not any("${" in word for word in words)
    return [word.replace(f"{MOUNT}/", f"{survey.folder}/") for word in words]


def test_the_trigger_starts_the_job_as_it_is(checkout):
    text = (checkout / "infra" / "terraform" / "schedule.tf").read_text()
    assert re.search(r'uri += ".*\$\{google_cloud_run_v2_job\.launcher\[0\]\.id\}:run"', text)
    assert "overrides" not in text


@pytest.mark.parametrize("dated", [True, False], ids=["nights", "all rows"])
def test_every_night_the_scheduled_command_ranks_what_is_due(survey, command, scheduled, dated):
    last = datetime.now(UTC).date() - timedelta(days=1)
    pq.write_table(answers(50), survey.folder / f"{last}.parquet")
    survey.set(input__paths=["{date}.parquet" if dated else "answers.parquet"])
    assert scheduled[0] == "hushrank"
    code, printed = command(*scheduled[1:])
    assert code == 0, printed
    assert len(survey.archived()) == 1
    assert survey.archived()[0].name.startswith(str(last if dated else last + timedelta(days=1)))
    code, printed = command(*scheduled[1:])  # the next night, if nothing new is due
    assert code == 0, printed
    assert len(survey.archived()) == 1

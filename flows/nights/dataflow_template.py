"""Main program of the Dataflow flex template: it reads and counts the rows of a survey.

It reserves no budget and draws no noise. It writes exact counts to the confidential area, under the
release's key. `hushrank run` of the same survey then reads these counts instead of rows: it
reserves, draws and publishes. The template's service adds Beam's own options (runner, project,
locations), and this program passes them on.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from datetime import date
from pathlib import Path

from hushrank.flows import reading
from hushrank.flows.errors import ConfigError, HushrankError
from hushrank.flows.run.confidential_folder import make_confidential
from hushrank.flows.run.context import Job
from hushrank.flows.run.input_files import heads_of
from hushrank.flows.run.job import prepare_job, read_survey
from hushrank.pipelines.engine.runner import Engine, Runner
from hushrank.privacy.keyed_hash import SecretKey
from hushrank.transforms.common.local_files import MostBytes
from hushrank.transforms.storage.places import CloudPath, is_cloud, read_whole


def arguments() -> argparse.ArgumentParser:
    """The parameters of the template; all others are Beam's."""
    parser = argparse.ArgumentParser(
        prog="hushrank.flows.nights.dataflow_template", allow_abbrev=False
    )
    parser.add_argument(
        "--survey",
        required=True,
        help="gs:// path of the job's YAML file; its places are gs:// too",
    )
    parser.add_argument(
        "--date",
        type=date.fromisoformat,
        help="night to rank (2026-11-20), for a survey that ranks by nights",
    )
    return parser


def main(argv: Sequence[str] | None = None) -> None:
    """Submit the job and exit: 0 if submitted, otherwise the exit code of the error shown."""
    ours, for_beam = arguments().parse_known_args(argv)
    try:
        launch(ours.survey, ours.date, for_beam)
    except HushrankError as error:
        print(error, file=sys.stderr)  # noqa: T201 - the template's log shows it
        sys.exit(error.exit_code)


def launch(survey: str, night: date | None, for_beam: Sequence[str]) -> None:
    """Submit the part of `survey` that reads rows, with Beam's options `for_beam`.

    Raises:
        ConfigError: the survey breaks a rule, or one of its places is on this machine.
    """
    job = _job(survey, night)
    reduction = job.reduction(SecretKey.draw(job.bits()), job.work)
    engine = Engine(Runner.DATAFLOW, tuple(for_beam))
    make_confidential(job.config.confidential, job.release_id)
    from hushrank.pipelines.reduce.graph import (
        submit,  # loads Beam: not before the survey was checked
    )

    submit(replace(reduction, memory_limit=job.config.memory_limit, engine=engine))


def _job(survey: str, night: date | None) -> Job:
    """The checked job of a YAML file in Cloud Storage."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "survey.yaml")
        try:
            path.write_bytes(read_whole(survey, MostBytes.SETTINGS))
        except (OSError, ValueError) as error:
            raise ConfigError(f"--survey {survey}: cannot be read: {error}") from None
        found = read_survey(path, anyway=True)  # the run that draws checks delta
        if found.config.schedule.stream is not None:  # the run decides which attempt counts
            raise ConfigError(
                f"{survey}: schedule.stream: this template counts nights by themselves. Set runner:"
                " {kind: dataflow}, with which hushrank run counts the nights of a stream"
            )
        job = prepare_job(found, night=night)
        with reading.Reader() as reader:
            job = replace(job, heads=heads_of(job.files, job.config, reader))
    config = job.config
    places = {"confidential": config.confidential, "output": config.output}
    places |= {"ledger.path": config.ledger.path}
    here = [name for name, place in places.items() if not isinstance(place, CloudPath)]
    here += ["input.paths"] if not all(is_cloud(file.path) for file in job.files) else []
    if here:
        raise ConfigError(f"{survey}: {', '.join(here)}: must start with gs:// for this template")
    return job


if __name__ == "__main__":
    main()

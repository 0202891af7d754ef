"""`hushrank run --plan`: the stages of a run, what each reads and writes, and on which side."""

from __future__ import annotations

from collections.abc import Iterator

from rich.table import Table
from rich.text import Text

from hushrank.flows.errors import ConfigError
from hushrank.flows.release.row_source import row_source_of
from hushrank.flows.run.confidential_folder import DRAWN_FILE
from hushrank.flows.run.context import Job
from hushrank.flows.run.stages import REDUCE, STEPS
from hushrank.flows.terminal import Console
from hushrank.privacy.keyed_hash import KEY_BYTES, SecretKey
from hushrank.privacy.randomness import BitSource
from hushrank.privacy.units import Unit
from hushrank.transforms.common.schema import InputError

PROTECTED, RELEASED = "protected", "released"
# Nothing is run, so there is no secret.
NO_KEY = SecretKey(bytes(KEY_BYTES), BitSource.SEEDED)

Row = tuple[str, str, str, str]


def stage_rows(job: Job) -> list[Row]:
    """Return name, input, output and side of the trust boundary of each stage of a run.

    Raises:
        ConfigError: an input file cannot be read.
    """
    rows: list[Row] = []
    for step in STEPS:
        if step is REDUCE:
            rows += _engine_rows(job)
        else:
            side = _crossing(job) if step.crosses else RELEASED
            rows.append((step.name, step.reads, step.writes, side))
    return rows


def _engine_rows(job: Job) -> Iterator[Row]:
    from hushrank.pipelines.reduce.graph import randomising_stage, stages  # loads Beam

    reduction = job.reduction(NO_KEY, job.planned_work)
    try:
        found = stages(reduction)
    except InputError as error:
        raise ConfigError.from_input(error) from None
    randomises = ""
    config = job.config
    if config.privacy.unit is Unit.LOCAL and not config.privacy.already_private:
        randomises = randomising_stage([stage.name for stage in found])
    for stage in found:
        side = f"{PROTECTED}; randomises" if stage.name == randomises else PROTECTED
        yield f"reduce: {stage.name}", ", ".join(stage.reads), ", ".join(stage.writes), side


def _crossing(job: Job) -> str:
    """The step that lets a result cross from the protected side to the released side."""
    if not job.config.privacy.private:
        return "crosses: no noise"
    return "crosses: answers are random already" if _is_local(job) else "crosses: noise is added"


def _is_local(job: Job) -> bool:
    return job.config.privacy.unit is Unit.LOCAL


def show_stages(console: Console, job: Job) -> None:
    """Print the stages of a run of `job`, and the places of its files."""
    table = Table(box=None, header_style="dim", pad_edge=False)
    for heading in ("stage", "reads", "writes", "side"):
        table.add_column(heading, overflow="fold")
    for row in stage_rows(job):
        table.add_row(*map(Text, row))
    console.print(table)
    config = job.config
    source = row_source_of(config, job.night)
    places = {
        "engine": config.runner.kind,
        "the input": ", ".join(config.input.paths) if source is None else source.text,
        "protected": f"{job.planned_work} holds every file of the protected side, and {DRAWN_FILE}",
        "output": config.output,
        "ledger": config.ledger.path,
    }
    for name, place in places.items():
        console.print(Text(f"{name}: {place}"), soft_wrap=True)
    console.print("No row was read and nothing was spent.")

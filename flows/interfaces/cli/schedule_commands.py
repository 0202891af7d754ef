"""`hushrank serve` and `hushrank deploy`: nights on a Prefect server.

The server is the one in Prefect's settings, or else one that is started for the command.

The server schedules and shows runs; only the ledger decides what may be spent. So a server that is
down, or has lost its database, costs only time: the ledger shows which nights were missed.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.text import Text

from hushrank.flows.errors import ConfigError, HushrankError
from hushrank.flows.interfaces.cli.arguments import Anyway, ConfigPath
from hushrank.flows.terminal import Console

if TYPE_CHECKING:
    from prefect.client.schemas.objects import ConcurrencyLimitConfig
    from prefect.schedules import Schedule

    from hushrank.flows.config.survey import SurveyConfig

STARTING = "Starting a Prefect server for this command, which takes some seconds."
OWN_SERVER_ENDED = (
    "Prefect: the server that this command started has ended. Start the command again; nights that"
    " were missed are ranked then."
)
REGISTERED_HERE = (
    "No server is configured, so it is in this machine's own database: `prefect server start` keeps"
    " the schedule and shows the runs."
)
WAIT_SECONDS = 10.0  # wait before asking a silent server again

CronText = Annotated[
    str | None,
    typer.Option("--cron", help='When to run, such as "0 2 * * *"; default: schedule.cron.'),
]


def serve(config: ConfigPath, cron: CronText = None, anyway: Anyway = False) -> None:
    """Run on a schedule, in this process, until it is stopped: rank every night that is due.

    Only one run is active at a time. If the server is unreachable, the command waits and continues.
    """
    survey = _scheduled_survey(config, anyway)
    schedule = _schedule(config, survey, cron)
    from hushrank.flows.nights.server import server_configured, server_of_command

    console = Console()
    own = not server_configured()
    with server_of_command(lambda: console.print(STARTING)) as page:
        console.print(Text(f"Prefect shows the runs at {page}/runs."), soft_wrap=True)
        _keep_serving(
            console, survey.name, schedule, _parameters(str(config.resolve()), anyway), own
        )


def _keep_serving(
    console: Console, name: str, schedule: Schedule, parameters: dict[str, Any], own: bool
) -> None:
    """Serve the flow of nights; wait for a server that somebody else starts again.

    Raises:
        HushrankError: serving failed, or the command's own server ended.
    """
    from prefect.types.entrypoint import EntrypointType

    from hushrank.flows.nights.scheduled import nights

    while True:
        try:
            nights.serve(
                name=name,
                schedule=schedule,
                parameters=parameters,
                tags=["hushrank"],
                limit=1,  # without the server's limit: see `_one_at_a_time`
                entrypoint_type=EntrypointType.MODULE_PATH,
            )
        # Prefect's client raises errors of many types when its server is gone
        except Exception as error:
            if _server_answers():
                raise HushrankError(f"Prefect: {error}") from error
            if own:
                raise HushrankError(OWN_SERVER_ENDED) from None
            console.print(
                Text("The Prefect server does not answer. Waiting for it.", style="yellow")
            )
            _wait_for_server()
        else:
            return


def deploy(
    config: ConfigPath,
    pool: Annotated[str, typer.Option(help="The work pool whose workers run it.")] = "hushrank",
    cron: CronText = None,
    image: Annotated[
        str | None, typer.Option(help="Container image, for a Docker or Kubernetes pool.")
    ] = None,
    path: Annotated[
        str | None,
        typer.Option(
            "--path", help="Path of SURVEY.YAML on the workers, if it differs from the path here."
        ),
    ] = None,
    anyway: Anyway = False,
) -> None:
    """Register the schedule with a Prefect server, so that workers of a pool run it."""
    survey = _scheduled_survey(config, anyway)
    schedule = _schedule(config, survey, cron)
    from hushrank.flows.nights.server import server_configured, server_of_command

    console = Console()
    own = not server_configured()
    with server_of_command(lambda: console.print(STARTING)) as page:
        _register(survey, schedule, pool, image, _parameters(path or str(config.resolve()), anyway))
    console.print(
        Text(f"Deployed nights/{survey.name}: workers of pool {pool} run it."), soft_wrap=True
    )
    console.print(
        Text(REGISTERED_HERE if own else f"Prefect shows it at {page}/deployments."), soft_wrap=True
    )


def _register(
    survey: SurveyConfig,
    schedule: Schedule,
    pool: str,
    image: str | None,
    parameters: dict[str, Any],
) -> None:
    """Register the schedule of nights with the server that the settings name."""
    _check_pool(pool, image)
    from prefect.deployments.runner import RunnerDeployment
    from prefect.types.entrypoint import EntrypointType

    from hushrank.flows.nights.scheduled import nights

    deployment = RunnerDeployment.from_flow(
        nights,
        name=survey.name,
        schedule=schedule,
        parameters=parameters,
        tags=["hushrank"],
        concurrency_limit=_one_at_a_time(),
        work_pool_name=pool,
        entrypoint_type=EntrypointType.MODULE_PATH,
    )
    deployment.apply(work_pool_name=pool, image=image)


def _scheduled_survey(config: Path, anyway: bool) -> SurveyConfig:
    from hushrank.flows.nights.server import set_defaults
    from hushrank.flows.run.job import check_places, read_survey

    survey = read_survey(config, anyway=anyway)
    _ = survey.mechanism  # refuse a mechanism that does not suit the method
    check_places(survey.config)
    set_defaults()  # before Prefect is loaded, which reads them
    return survey.config


def _schedule(config: Path, survey: SurveyConfig, cron: str | None) -> Schedule:
    chosen = cron or survey.schedule.cron
    if chosen is None:
        raise ConfigError(
            f'{config}: no schedule. Add --cron "0 2 * * *", or write schedule.cron into the file.'
        )
    from prefect.client.schemas.schedules import CronSchedule
    from prefect.schedules import Cron

    try:
        CronSchedule(cron=chosen, timezone=survey.schedule.timezone)
    except ValueError:
        raise ConfigError(
            f"cron: {chosen!r} is not a schedule; write five fields (minute, hour, day, month,"
            ' weekday), for example "0 2 * * *" for every night at two.'
        ) from None
    return Cron(chosen, timezone=survey.schedule.timezone)


def _parameters(path: str, anyway: bool) -> dict[str, Any]:
    return {"survey": path, **({"anyway": True} if anyway else {})}


def _one_at_a_time() -> ConcurrencyLimitConfig:
    """The server's limit of one run at a time; the ledger's lock enforces it in any case.

    A run that dies while the server is down keeps its slot. The server frees the slot after some
    minutes if it keeps leases in files (docs/nightly.md), but never if it keeps them in memory,
    which is its default. So `serve`, which can count its own runs, does not use this limit.
    """
    from prefect.client.schemas.objects import ConcurrencyLimitConfig, ConcurrencyLimitStrategy

    return ConcurrencyLimitConfig(limit=1, collision_strategy=ConcurrencyLimitStrategy.ENQUEUE)


def _server_answers() -> bool:
    from hushrank.flows.nights.server import check_server

    try:
        check_server()
    except HushrankError:
        return False
    return True


def _wait_for_server() -> None:
    while not _server_answers():
        time.sleep(WAIT_SECONDS)


def _check_pool(pool: str, image: str | None) -> None:
    from prefect.client.orchestration import get_client
    from prefect.exceptions import ObjectNotFound

    with get_client(sync_client=True) as client:
        try:
            found = client.read_work_pool(pool)
        except ObjectNotFound:
            raise ConfigError(
                f"--pool {pool}: the server has no such work pool. Make one with `prefect work-pool"
                f" create {pool} --type process` (or docker), or name another."
            ) from None
    if (image is None) == _runs_images(found.base_job_template):
        advice = "name one with --image" if image is None else "leave --image out"
        raise ConfigError(f"--pool {pool}: is of type {found.type}; {advice}.")


def _runs_images(template: Mapping[str, Any]) -> bool:
    """Whether the pool's jobs run in containers, and so need an image."""
    return "image" in template.get("variables", {}).get("properties", {})

"""The last run of a job as a Prometheus text file, for the node exporter's textfile collector."""

from __future__ import annotations

from pathlib import Path

from prometheus_client import CollectorRegistry, Gauge, write_to_textfile
from prometheus_client.parser import text_string_to_metric_families

from hushrank.flows.errors import ConfigError
from hushrank.flows.run_events import RunEvent
from hushrank.transforms.write import OWNER_ONLY_FOLDER

LAST_SUCCESS = "hushrank_last_success_timestamp_seconds"


class MetricsFile:
    """Replaces the file when a run ends, whole, as scrapers need it.

    Metrics, each with the label `population`: hushrank_last_run_timestamp_seconds,
    hushrank_last_run_success (0 or 1), hushrank_last_success_timestamp_seconds,
    hushrank_last_run_duration_seconds, hushrank_step_duration_seconds (label `step`),
    hushrank_budget_epsilon_left and hushrank_budget_epsilon_total (as of the last success).
    """

    def __init__(self, path: Path) -> None:
        """Check the place.

        Raises:
            ConfigError: the file cannot be written.
        """
        self._path = path
        self._steps: dict[str, float] = {}
        try:
            path.parent.mkdir(mode=OWNER_ONLY_FOLDER, parents=True, exist_ok=True)
            probe = path.with_name(f".{path.name}.probe")
            probe.touch()
            probe.unlink()
        except OSError as error:
            raise ConfigError(
                f"observability.metrics: {path} cannot be written: {error.strerror}. Name another"
                " file, or remove the key. Nothing was read or spent."
            ) from None

    def tell(self, event: RunEvent) -> None:
        """Remember how long a step took; at the end of the run, write the file."""
        if event.step is not None and event.seconds is not None:
            self._steps[event.step] = event.seconds
        if event.event in ("run ended", "run failed"):
            write_to_textfile(str(self._path), self._registry(event))

    def _registry(self, event: RunEvent) -> CollectorRegistry:
        registry, population = CollectorRegistry(), event.population
        last = self._values_before()
        if event.ok:
            last[LAST_SUCCESS] = event.time.timestamp()
            if event.epsilon_left is not None and event.epsilon_total is not None:
                last["hushrank_budget_epsilon_left"] = event.epsilon_left
                last["hushrank_budget_epsilon_total"] = event.epsilon_total
        last["hushrank_last_run_timestamp_seconds"] = event.time.timestamp()
        last["hushrank_last_run_success"] = float(bool(event.ok))
        last["hushrank_last_run_duration_seconds"] = event.seconds or 0.0
        for name, value in sorted(last.items()):
            words = name.removeprefix("hushrank_").replace("_", " ")
            Gauge(name, words, ["population"], registry=registry).labels(population).set(value)
        steps = Gauge(
            "hushrank_step_duration_seconds", "of the last run", ["population", "step"],
            registry=registry,
        )  # fmt: skip
        for step, seconds in self._steps.items():
            steps.labels(population, step).set(seconds)
        return registry

    def _values_before(self) -> dict[str, float]:
        """What only a success changes, as of the last one."""
        try:
            families = list(text_string_to_metric_families(self._path.read_text()))
        except (OSError, ValueError):  # none yet, or not ours: start anew
            return {}
        kept = (LAST_SUCCESS, "hushrank_budget_epsilon_left", "hushrank_budget_epsilon_total")
        samples = (sample for family in families for sample in family.samples)
        return {sample.name: sample.value for sample in samples if sample.name in kept}

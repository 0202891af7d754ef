"""Beam's options for each engine."""

from __future__ import annotations

import logging

from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.runners.portability.fn_api_runner import fn_runner

from hushrank.pipelines.memory_plan import local_workers
from hushrank.pipelines.runner import Runner


def pipeline_options(runner: Runner) -> PipelineOptions:
    """Beam's options for `runner`.

    The local engine is named outright, for plain `DirectRunner` first tries to download another,
    and is imported above, for otherwise its first job would wait for that. It works with threads,
    although it warns that it might not. What it offers in place of that is worse: its mode
    `multi_threading` lost a part of the rows in 8 of 150 runs (a timer empties buffers that are
    being written to), and its mode `multi_processing` starts slowly and gains nothing.
    """
    logging.getLogger(fn_runner.__name__).setLevel(logging.ERROR)
    local = [
        "--runner=FnApiRunner",
        f"--direct_num_workers={local_workers()}",
        "--no_pipeline_type_check",  # no transform declares types, and looking takes 30 ms
    ]
    return PipelineOptions({Runner.LOCAL: local}[runner])

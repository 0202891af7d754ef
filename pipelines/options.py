"""Where a pipeline runs."""

from __future__ import annotations

import logging
import os
from enum import StrEnum

from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.runners.portability.fn_api_runner import fn_runner

MAX_LOCAL_WORKERS = 4  # each needs some 150 MB, and only what numpy and Arrow do runs at once


class Runner(StrEnum):
    """Engine that executes the pipeline graph."""

    LOCAL = "local"  # in this process


def pipeline_options(runner: Runner) -> PipelineOptions:
    """Beam's options for `runner`.

    The local engine is named outright, for plain `DirectRunner` first tries to download another,
    and is imported above, for otherwise its first job would wait for that. It works with threads,
    although it warns that it might not. What it offers in place of that is worse: its mode
    `multi_threading` lost a part of the rows in 8 of 150 runs (a timer empties buffers that are
    being written to), and its mode `multi_processing` starts slowly and gains nothing.
    """
    logging.getLogger(fn_runner.__name__).setLevel(logging.ERROR)
    workers = min(os.cpu_count() or 1, MAX_LOCAL_WORKERS)
    local = [
        "--runner=FnApiRunner",
        f"--direct_num_workers={workers}",
        "--no_pipeline_type_check",  # no transform declares types, and looking takes 30 ms
    ]
    return PipelineOptions({Runner.LOCAL: local}[runner])

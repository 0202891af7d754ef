"""Tests that macOS and Windows leave out, by name, each with its reason: the only place that says.

The whole suite runs on Linux. `.github/workflows/check.yml` runs the rest of it on the other two.
"""

from __future__ import annotations

import sys

_COLLECTOR = "the collector runs on Linux alone"
_ENGINES = "Flink, Spark and Prism are started on Linux alone"
_CLOUD = "Terraform, the image and the containers are checked on Linux alone"
_FORKS = "elsewhere pytest-xdist starts the workers"
_IMITATES = "imitates the other systems, on Linux"
_MEASURED = "measures or bounds memory and open files as Linux counts them"
_SIGNALS = "kills or stops processes by signals"
_MODES = "makes files with modes, owners or kinds that Windows does not have"
_BROWSER = "builds the page with npm, or needs the tools of a Linux checkout"

LINUX_ALONE = {
    "tests/clients/test_js_client.py": _BROWSER,
    "tests/flows/collecting": _COLLECTOR,
    "tests/flows/nights/test_schedule.py": _CLOUD,
    "tests/flows/scenarios/test_bits_used.py": _MEASURED,
    "tests/flows/scenarios/test_machine_limits.py": _MEASURED,
    "tests/flows/scenarios/test_other_systems.py": _IMITATES,
    "tests/flows/scenarios/test_pages_are_true.py": _BROWSER,
    "tests/flows/scenarios/test_reading_apart.py": _MEASURED,
    "tests/flows/scenarios/test_terraform_schedule.py": _CLOUD,
    "tests/pipelines/engine/test_allocator.py": _MEASURED,
    "tests/pipelines/engine/test_flink_restarts.py": _ENGINES,
    "tests/pipelines/engine/test_job_server.py": _ENGINES,
    "tests/pipelines/scenarios/test_flink.py": _ENGINES,
    "tests/pipelines/scenarios/test_memory.py": _MEASURED,
    "tests/pipelines/scenarios/test_prism.py": _ENGINES,
    "tests/pipelines/scenarios/test_spark.py": _ENGINES,
    "tests/test_forked_workers.py": _FORKS,
    "tests/test_grants.py": _CLOUD,
    "tests/test_infra.py": _CLOUD,
    "tests/test_opened_files.py": _MEASURED,
    "tests/test_worker_pool.py": _ENGINES,
}
NOT_ON_WINDOWS = {
    "tests/flows/backup": _MODES,
    "tests/flows/bad_inputs": _MODES,
    "tests/flows/board/test_board.py": _MODES,
    "tests/flows/interfaces/app": _SIGNALS,
    "tests/flows/interfaces/cli/test_clean.py": _MODES,
    "tests/flows/interfaces/cli/test_score_command.py": _MODES,
    "tests/flows/interfaces/python/test_table_files.py": _MODES,
    "tests/flows/ledger/test_anchors.py": _MODES,
    "tests/flows/ledger/test_cloud_object.py": _SIGNALS,
    "tests/flows/ledger/test_git_anchor.py": _MODES,
    "tests/flows/ledger/test_key.py": _MODES,
    "tests/flows/ledger/test_ledger.py": _MODES,
    "tests/flows/ledger/test_ledger_faults.py": _SIGNALS,
    "tests/flows/ledger/test_local_file.py": _MODES,
    "tests/flows/ledger/test_operator.py": _MODES,
    "tests/flows/ledger/test_signatures.py": _MODES,
    "tests/flows/release/test_history.py": _MODES,
    "tests/flows/release/test_publish.py": _MODES,
    "tests/flows/run/test_damaged_files.py": _MODES,
    "tests/flows/run/test_ledger_recovery.py": _SIGNALS,
    "tests/flows/run/test_work_folder_leftovers.py": _MODES,
    "tests/flows/scenarios/test_bad_input.py": _MODES,
    "tests/flows/scenarios/test_cloud_run.py": _SIGNALS,
    "tests/flows/scenarios/test_covariates.py": _MODES,
    "tests/flows/scenarios/test_crashes.py": _SIGNALS,
    "tests/flows/scenarios/test_ctrl_c.py": _SIGNALS,
    "tests/flows/scenarios/test_restarts.py": _SIGNALS,
    "tests/flows/scenarios/test_resumed_counts.py": _MODES,
    "tests/flows/scenarios/test_run.py": _MODES,
    "tests/flows/scenarios/test_run_faults.py": _SIGNALS,
    "tests/flows/scenarios/test_same_job_again.py": _MODES,
    "tests/flows/scenarios/test_verify.py": _MODES,
    "tests/flows/test_signals.py": _SIGNALS,
    "tests/flows/trust/certificate/test_certificate.py": _MODES,
    "tests/flows/trust/certificate/test_kept.py": _MODES,
    "tests/pipelines/reduce/test_parcels.py": _MODES,
    "tests/pipelines/reduce/test_reduce_comparisons.py": _MODES,
    "tests/pipelines/reduce/test_reduce_responses.py": _MODES,
    "tests/transforms/storage/test_cloud_accounts.py": _MODES,
    "tests/transforms/storage/test_spill_file.py": _SIGNALS,
    "tests/transforms/storage/test_write.py": _MODES,
    "tests/transforms/streams/test_cell_files.py": _MODES,
    "tests/transforms/streams/test_people_files.py": _MODES,
    "tests/transforms/test_numpy_threads.py": _MEASURED,
    "tests/verifier/test_alone.py": _MODES,
}


def left_out(system: str = sys.platform) -> dict[str, str]:
    """Files and folders of tests that a system leaves out, with the reason."""
    if system == "linux":
        return {}
    return LINUX_ALONE | NOT_ON_WINDOWS if system == "win32" else LINUX_ALONE

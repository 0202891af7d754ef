"""Fail on a finding of checkov, on a file that it could not read, and on an empty scan."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

EXPECTED = {
    "terraform": 40,
    "dockerfile": 5,
}  # checks at least: fewer mean that files were passed over


def problems(report: list[dict[str, Any]]) -> list[str]:
    """What is wrong with the scanned files, or with the scan."""
    found = []
    seen = {part["check_type"]: part for part in report}
    for kind, least in EXPECTED.items():
        if kind not in seen:
            found.append(f"{kind}: nothing was scanned")
            continue
        results, summary = seen[kind]["results"], seen[kind]["summary"]
        found += [f"{path}: cannot be read" for path in results["parsing_errors"]]
        if summary["parsing_errors"] and not results["parsing_errors"]:
            found.append(f"{kind}: {summary['parsing_errors']} files cannot be read")
        for check in results["failed_checks"]:
            place = f"{check['file_path']}:{check['file_line_range'][0]}"
            found.append(f"{kind}{place}: {check['check_id']} {check['check_name']}")
        for check in results["skipped_checks"]:
            if not check["check_result"].get("suppress_comment"):
                found.append(
                    f"{check['resource']}: {check['check_id']} is skipped without a reason"
                )
        if summary["passed"] < least:
            found.append(f"{kind}: only {summary['passed']} checks passed, of at least {least}")
    return found


def main() -> None:
    """Print what is wrong and exit 1, or say that nothing is."""
    report = json.loads(Path(sys.argv[1]).read_text("utf-8"))
    parts = report if isinstance(report, list) else [report]
    found = problems(parts)
    if found:
        sys.exit("\n".join(found))
    passed = {part["check_type"]: part["summary"]["passed"] for part in parts}
    print("checkov:", ", ".join(f"{kind} {n} passed" for kind, n in passed.items()))  # noqa: T201


if __name__ == "__main__":
    main()

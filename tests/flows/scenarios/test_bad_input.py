"""What a person reads who made a mistake: the exact text, the exit code, and nothing spent."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.flows.conftest import answers


def refused(survey, command, *arguments) -> str:
    """The message of a run that must be refused as bad input before it spends anything."""
    code, printed = command("run", survey.config, "--direct", *arguments)
    assert code == 2, printed
    assert not survey.ledger.exists(), "budget was touched"
    assert survey.published() == []
    return printed.partition("\n")[2].strip()  # below the line that says what is checked


def rewrite(survey, table: pa.Table) -> Path:
    path = survey.folder / "answers.parquet"
    pq.write_table(table, path)
    return path


def test_missing_file(survey, command):
    survey.set(input__paths=["nowhere/*.parquet"])
    assert refused(survey, command) == (
        f"{survey.folder}/nowhere/*.parquet: no such file. Check input.paths; nothing was read."
    )


def test_missing_configuration(survey, command):
    code, printed = command("run", survey.folder / "absent.yaml", "--direct")
    assert code == 2
    assert printed.partition("\n")[2].strip() == (
        f"{survey.folder}/absent.yaml: no such file; `hushrank init answers.csv` writes survey.yaml"
    )


def test_empty_file(survey, command):
    (survey.folder / "answers.parquet").write_bytes(b"")
    assert refused(survey, command) == (
        f"{survey.folder}/answers.parquet: the file is empty (0 bytes)."
        " Remove it, or write it again."
    )


def test_wrong_column(survey, command):
    survey.set(input__columns__left="item_k")
    assert refused(survey, command) == (
        f"{survey.folder}/answers.parquet: column item_k not found."
        " Columns: user, item_i, item_j, outcome. Set input.columns.left: item_j."
    )


def test_misspelt_key(survey, command):
    survey.set(privacy__epsilon=None, privacy__epsilom=2.0)
    assert (
        f"{survey.config}: privacy.epsilom: unknown key. Did you mean epsilon?"
        in refused(survey, command).splitlines()
    )


@pytest.mark.parametrize("epsilon", [0, -1.0, float("nan")])
def test_epsilon_that_is_no_budget(survey, command, epsilon):
    survey.set(privacy__epsilon=epsilon)
    assert refused(survey, command) == (
        f"{survey.config}: privacy.epsilon: must be > 0, got {epsilon}; write for example"
        " epsilon: 2.0"
    )


def test_no_contributions(survey, command):
    survey.set(privacy__max_contributions=0)
    assert refused(survey, command) == (
        f"{survey.config}: privacy.max_contributions: must be >= 1, got 0; write for example"
        " max_contributions: 10"
    )


def test_duplicated_item(survey, command):
    survey.set(items__names=["ants", "bees", "ants", "dogs"])
    assert refused(survey, command) == (
        f"{survey.config}: items.names: item ants occurs 2 times; each item must have a name of its"
        " own"
    )


def test_user_column_of_nulls(survey, command):
    path = rewrite(survey, answers(5).set_column(0, "user", pa.nulls(30)))
    assert refused(survey, command) == (
        f"{path}: column user (input.columns.user) holds nothing but nulls; write real values,"
        " or name another column"
    )


def test_truncated_parquet(survey, command):
    path = survey.folder / "answers.parquet"
    path.write_bytes(path.read_bytes()[:-50])
    assert refused(survey, command) == (
        f"{path}: not a complete Parquet file (truncated or damaged). Write it again."
    )


def test_output_folder_of_another_job(survey, command):
    assert command("run", survey.config, "--direct")[0] == 0
    spent = survey.ledger.read_bytes()
    code, printed = command("run", survey.set(privacy__epsilon=1.0).config, "--direct")
    assert code == 2
    assert printed.partition("\n")[2].strip() == (
        f"output {survey.output}: holds the release of another job, or of this one as it was"
        " configured before; name another output, or move that release away"
    )
    assert survey.ledger.read_bytes() == spent


def test_output_folder_with_somebodys_files(survey, command):
    survey.output.mkdir()
    (survey.output / "thesis.docx").write_text("years of work")
    code, printed = command("run", survey.config, "--direct")
    assert code == 2
    assert "holds thesis.docx, which is not part of a release" in printed
    assert (survey.output / "thesis.docx").exists()


@pytest.mark.parametrize("mode", [0o755, 0o750, 0o710, 0o701])
def test_confidential_area_that_others_can_open(survey, command, mode):
    survey.work.mkdir()
    survey.work.chmod(mode)
    assert refused(survey, command) == (
        f"confidential: {survey.work} is open to other users of this machine, and exact counts"
        f" and rejected rows are kept there. Run: chmod 700 {survey.work}"
    )


def test_bad_rows_that_must_stop_the_run_give_the_budget_back(survey, command):
    table = answers(5).set_column(3, "outcome", pa.array([7] * 30, pa.int8()))
    rewrite(survey, table)
    survey.set(input__on_bad_rows="fail")
    code, printed = command("run", survey.config, "--direct")
    assert code == 2
    assert "input: some rows break a rule (on_bad_rows: fail)." in printed
    assert "zoo has epsilon 5.00 left of 5.00" in command("ledger", "show", survey.config)[1]
    assert survey.published() == []


def test_items_outside_the_catalogue_are_set_aside_and_not_reported(survey, command):
    good, bad = answers(200), answers(7)
    bad = bad.set_column(1, "item_i", pa.array([99] * len(bad), pa.int64()))
    rewrite(survey, pa.concat_tables([good, bad]))
    code, printed = command("run", survey.config, "--direct")
    assert code == 0
    assert "rejected" not in printed
    (rejects,) = survey.work.glob("*/rejects")
    assert sum(pq.read_table(path).num_rows for path in rejects.iterdir()) == 42
    words = {"rejects", "rows_rejected", "rows_read", "not in the catalogue"}
    for path in filter(Path.is_file, survey.output.rglob("*")):
        assert not [word for word in words if word in path.read_text()]

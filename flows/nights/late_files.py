"""Which nights have other files now than when they were released, by the names in the ledger.

The ledger holds keyed names of the contents that a release was counted from, so the answer needs
digests of the files and no row. That files came or were changed is public, as the days are on which
files arrive; what is in them is not told. Rows that a window chooses from one growing file, and
tables, whose every commit is another version, are left out: they change as they should.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date

from hushrank.flows.config.survey import SurveyConfig
from hushrank.flows.errors import LedgerError
from hushrank.flows.ledger.account import Attempt, ReleaseState
from hushrank.flows.ledger.key import find_key
from hushrank.flows.release.identity import REMEMBERED_BYTES, Contents, input_names, is_plain
from hushrank.flows.run.budget import ledger_of
from hushrank.flows.run.input_files import files_of
from hushrank.transforms.common.schema import InputError
from hushrank.transforms.storage.files import InputFile, is_remote

CHANGED = (
    "Night {night} changed after its release: files came or have another content. Release {id}"
    " stays as it is; {fix}."
)
AGAIN = "hushrank run --date {night} --again ranks the night as it is now, and pays again"
IN_STREAM = "a night of a stream is drawn once, and rows that came late are not read"


def late_files(
    config: SurveyConfig, attempts: Mapping[date, Attempt], *, reads: bool = True
) -> dict[date, str]:
    """A sentence for each released night whose files have changed since.

    Args:
        config: the configuration.
        attempts: of each night the one that counts.
        reads: whether large local files are read whose digests are not remembered; if not, nothing
            is told of them.

    Raises:
        LedgerError: the key of the ledger cannot be read.
    """
    if not config.nightly or config.schedule.window is not None:
        return {}
    key, notes = find_key(config.ledger.path), dict[date, str]()
    if key is None:
        return {}
    contents = Contents(key, config.confidential)

    def content_of(file: InputFile) -> str | None:
        small = not is_plain(file) or file.size < REMEMBERED_BYTES
        return contents.of(file) if reads or small else contents.remembered(file)

    for night, attempt in sorted(attempts.items()):
        if attempt.state is not ReleaseState.COMMITTED or not attempt.inputs:
            continue
        try:
            files = files_of(config, night)
            if any(file.table is not None for file in files):
                continue
            now = input_names((), files, key, content_of)
        except InputError:  # gone since, or not readable: nothing came late
            continue
        known = set(attempt.inputs)
        if not (now.contents <= known or (now.older and known.issuperset(now.older))):
            fix = IN_STREAM if attempt.of else AGAIN.format(night=night)
            notes[night] = CHANGED.format(night=night, id=attempt.release_id, fix=fix)
    contents.remember()
    return notes


def late_releases(config: SurveyConfig) -> dict[str, str]:
    """The same by the id of the release, for whoever lists releases: no store is asked.

    Nothing is told where the ledger cannot be used: the list of releases does without it.
    """
    if not config.nightly or any(map(is_remote, config.input.paths)):
        return {}
    try:
        attempts = ledger_of(config).nights(config.job_hashes())
        notes = late_files(config, attempts, reads=False)
    except LedgerError:
        return {}
    return {attempts[night].release_id: note for night, note in notes.items()}

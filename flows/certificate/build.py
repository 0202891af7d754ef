"""The certificate of a release: made of what was stored with its noise, and of the ledger.

Nothing here reads a row, and nothing comes from this run: the law, the bits, the time and the code
are those of the draw, and the ledger is read up to the release's own line. So a run that was killed
and is taken up again writes the same bytes.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping

from hushrank.flows.certificate.counts import cost_of
from hushrank.flows.certificate.domain import domain_of, public_facts_of, rows_of
from hushrank.flows.certificate.draws_of import draws_of
from hushrank.flows.certificate.model import (
    AuditedPair,
    Certificate,
    Guarantee,
    LedgerPart,
    Released,
    Software,
)
from hushrank.flows.certificate.numbers import as_shown
from hushrank.flows.config.survey import SurveyConfig
from hushrank.flows.ledger.signing import load_signer
from hushrank.flows.methods.base import Arrays, Calibrated
from hushrank.flows.release.archive import CERTIFICATE, SIGNATURE, Certify, Contents
from hushrank.flows.release.release import Release
from hushrank.privacy.units import Unit

POST_PROCESSING = (
    "Everything in the release beside what `draws` lists: the ranking, scores, ranks, intervals,"
    " chances, groups, warnings and figures. It is computed from the draws and from public facts,"
    " by no further look at the rows, and costs nothing."
)
NIGHTS_BEFORE = (
    "What this night shows is computed from the draws of all nights of the stream so far."
)
BUDGET_BEFORE = "The report shows the balance of the ledger when it was written, which is public."

NOT_PROVED = (
    "That the bounds of `domain` were enforced, and that rows were read as `rows` says.",
    "That the random bits came from the operating system, and that nobody kept them.",
    "That the code that `software` names is the code that ran, on a machine that nobody else read.",
    "That exact counts and rows were seen by nobody and deleted.",
    "That the public facts are public, and were not made from the answers.",
    "That the released numbers were drawn once: who draws often and keeps the best breaks it.",
    "That the derivations are right: a person has to read them, and may check small cases.",
)
LOCAL_NOT_PROVED = (
    "That answers which came privatised were privatised by this law where they were given."
)
LEDGER_NOT_PROVED = (
    "That the ledger is the only one of these people, and that nobody put an older copy back"
    " before a line was added; lines after this release are not covered."
)


def certifier(
    release: Release,
    config: SurveyConfig,
    drawn_by: Calibrated,
    drawn: Arrays,
    software: Software,
    ledger: LedgerPart | None,
    audit: tuple[AuditedPair, ...] | None = None,
) -> Certify:
    """Makes `certificate.json` of the other published files of a release; as `certificate_of`.

    Where the ledger's lines are signed, the same key signs it: `certificate.sig`.

    Raises:
        LedgerError: the key cannot be read.
    """
    key = config.ledger.signing_key
    signer = None if key is None else load_signer(key)

    def certify(files: Contents) -> Contents:
        made = certificate_of(release, config, drawn_by, drawn, software, ledger, files, audit)
        content = made.to_json().encode()
        signed = {} if signer is None else {SIGNATURE: signer.sign(content)}
        return {CERTIFICATE: content, **signed}

    return certify


def certificate_of(
    release: Release,
    config: SurveyConfig,
    drawn_by: Calibrated,
    drawn: Arrays,
    software: Software,
    ledger: LedgerPart | None,
    files: Mapping[str, bytes],
    audit: tuple[AuditedPair, ...] | None = None,
) -> Certificate:
    """The certificate of a release.

    Args:
        release: it.
        config: its job.
        drawn_by: method and mechanism, as they were stored with the noise.
        drawn: what they drew.
        software: that drew it.
        ledger: up to its own line; None: no ledger counts it.
        files: what is published of it, by name.
        audit: what attacks on its mechanism have shown; None: there were none.
    """
    return Certificate(
        release=Released(
            release_id=release.release_id,
            population=release.name,
            job=release.job,
            method=release.method,
            night=release.night,
            created=release.created,
            safe=release.safe,
        ),
        files={name: hashlib.sha256(files[name]).hexdigest() for name in sorted(files)},
        guarantee=_guarantee(release, drawn_by),
        domain=domain_of(config, release),
        rows=rows_of(config),
        public_facts=tuple(public_facts_of(config)),
        draws=draws_of(drawn_by, drawn),
        bits=release.privacy.bits,
        reconstructed=release.privacy.reconstructed,
        ledger=ledger,
        software=software,
        post_processing=tuple(_post_processing(release)),
        errata=() if release.privacy.erratum is None else (release.privacy.erratum,),
        not_proved=tuple(_not_proved(config, ledger)),
        audit=audit,
    )


def _guarantee(release: Release, drawn_by: Calibrated) -> Guarantee:
    privacy, spend = release.privacy, drawn_by.spend
    return Guarantee(
        unit=privacy.unit.value,
        adjacency=None if privacy.adjacency is None else privacy.adjacency.value,
        epsilon=as_shown(privacy.epsilon),
        delta=as_shown(privacy.delta),
        rho=None if privacy.rho is None else as_shown(privacy.rho),
        charged=cost_of(spend, as_shown),
        statement=privacy.statement,
        not_protected=privacy.not_protected,
        theorem=privacy.theorem,
    )


def _post_processing(release: Release) -> Iterator[str]:
    yield POST_PROCESSING
    if release.stream is not None:
        yield NIGHTS_BEFORE
    if release.safe:
        yield BUDGET_BEFORE


def _not_proved(config: SurveyConfig, ledger: LedgerPart | None) -> Iterator[str]:
    yield from NOT_PROVED
    if config.privacy.unit is Unit.LOCAL and config.privacy.already_private:
        yield LOCAL_NOT_PROVED
    if ledger is not None:
        yield LEDGER_NOT_PROVED

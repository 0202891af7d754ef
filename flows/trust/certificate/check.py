"""Reading certificates back, and whether one agrees with its release.

This compares what this code wrote; `verifier/` in the checkout checks a certificate without it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator

from pydantic import ValidationError

from hushrank.flows.errors import ArchiveError
from hushrank.flows.methods.draws import CountNoise, as_shown
from hushrank.flows.release.archive import CERTIFICATE, RELEASE, SIGNATURE, files_of
from hushrank.flows.release.release import Release, load_release
from hushrank.flows.trust.certificate.model import Certificate
from hushrank.transforms.common.local_files import MostBytes
from hushrank.transforms.storage.cloud_storage import Place
from hushrank.transforms.storage.write import read_whole


def load_certificate(folder: Place) -> Certificate | None:
    """The certificate in a folder of a release; None: versions before have made none.

    Raises:
        ArchiveError: the file cannot be read, or is no certificate.
    """
    path = folder / CERTIFICATE
    if not path.exists():
        return None
    try:
        return Certificate.model_validate_json(read_whole(path, MostBytes.RELEASE))
    except OSError as error:
        raise ArchiveError(f"{path}: cannot be read: {error.strerror}") from error
    except ValidationError:
        raise ArchiveError(
            f"{path}: is no certificate that this version of hushrank can read, or was changed"
        ) from None


def problems_of_certificate(folder: Place) -> Iterator[str]:
    """Yield a sentence for each difference between an archived release and its certificate.

    Args:
        folder: folder of a release whose files are as published; a release without a certificate
            has no certificate.
    """
    try:
        certificate = load_certificate(folder)
    except ArchiveError as error:
        yield str(error)
        return
    if certificate is None:
        return
    release = load_release(folder / RELEASE)
    place = folder / CERTIFICATE
    for name in files_of(folder):
        if name in (CERTIFICATE, SIGNATURE):
            continue
        found = hashlib.sha256(read_whole(folder / name, MostBytes.RELEASE)).hexdigest()
        if certificate.files.get(name) != found:
            yield f"{place}: names another digest of {name}."
    for what, stated, released in _pairs(certificate, release):
        if stated != released:
            yield f"{place}: {what} is {stated}, and the release says {released}."


def _pairs(certificate: Certificate, release: Release) -> Iterator[tuple[str, object, object]]:
    """Yield facts that both state: a name, the certificate's value, the release's value."""
    own, privacy = certificate.release, release.privacy
    for name in ("release_id", "job", "method", "night", "created", "safe"):
        yield name, getattr(own, name), getattr(release, name)
    yield "population", own.population, release.name
    guarantee = certificate.guarantee
    yield "epsilon", guarantee.epsilon, as_shown(privacy.epsilon)
    yield "delta", guarantee.delta, as_shown(privacy.delta)
    yield "unit", guarantee.unit, privacy.unit.value
    counts = [draw for draw in certificate.draws if isinstance(draw, CountNoise)]
    if privacy.sensitivity_l1 is not None:
        found = [(draw.sensitivity.l1, draw.sensitivity.l2_squared) for draw in counts]
        wanted = (privacy.sensitivity_l1, privacy.sensitivity_l2_squared)
        yield "sensitivity", wanted in found, True

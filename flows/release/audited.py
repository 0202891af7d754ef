"""Results of an audit of the job, for the certificate of its releases."""

from __future__ import annotations

from typing import Annotated

from pydantic import AwareDatetime, BaseModel, Field, ValidationError

from hushrank.flows.config.survey import SurveyConfig
from hushrank.flows.errors import ConfigError
from hushrank.flows.statement.record import Record
from hushrank.transforms.common.local_files import MostBytes, read_local

# A fraction in lowest terms, such as `7/10`; or `inf`.
FractionText = Annotated[str, Field(pattern=r"^(inf|(0|[1-9][0-9]*)/[1-9][0-9]*)$")]


class AuditedPair(Record, strict=True):
    """Result of an attack on the configured mechanism.

    Attributes:
        pair: two neighbouring synthetic inputs, in words.
        epsilon_lower: the mechanism's epsilon is at least this, with that confidence.
        confidence: confidence of the lower bound.
        when: time of the audit.
        stated: epsilon as claimed.
    """

    pair: str
    epsilon_lower: FractionText
    confidence: FractionText
    when: AwareDatetime
    stated: FractionText


class _Audit(BaseModel):
    """Fields of `hushrank audit`'s file that a certificate needs."""

    job: str
    refuted: bool
    certificate: tuple[AuditedPair, ...]


def audited_pairs(config: SurveyConfig) -> tuple[AuditedPair, ...] | None:
    """The bounds in the file `report.audit`; None: the job names none.

    Raises:
        ConfigError: the file cannot be read, is of another configuration, or refutes what is
            stated.
    """
    path = config.report.audit
    if path is None:
        return None
    try:
        found = _Audit.model_validate_json(read_local(path, MostBytes.RECORDS))
    except OSError as error:
        raise ConfigError(
            f"report.audit: {path} cannot be read: {error.strerror}. Run hushrank audit, or remove"
            " the key. Nothing was spent."
        ) from None
    except ValidationError:
        raise ConfigError(
            f"report.audit: {path} is not what hushrank audit writes. Run hushrank audit again."
            " Nothing was spent."
        ) from None
    if found.job not in config.job_hashes():
        raise ConfigError(
            f"report.audit: {path} is an audit of another configuration. Run hushrank audit again."
            " Nothing was spent."
        )
    if found.refuted:
        raise ConfigError(
            f"report.audit: {path} shows that the mechanism breaks what is stated. Do not publish"
            " with it, and report the fault. Nothing was spent."
        )
    return found.certificate

"""What an audit of the job has shown, for the certificate of its releases."""

from __future__ import annotations

from pydantic import BaseModel, ValidationError

from hushrank.flows.certificate.model import AuditedPair
from hushrank.flows.config.survey import SurveyConfig
from hushrank.flows.errors import ConfigError
from hushrank.transforms.common.local_files import MostBytes, read_local


class _Audit(BaseModel):
    """What a certificate needs of the file that `hushrank audit` writes."""

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

"""`hushrank survey build`: write the files of the page.

index.html names the digest of every other file, and browsers refuse a file with another one. So the
digest of index.html stands for the whole page: who knows it can check what a host serves.
"""

from __future__ import annotations

import base64
import hashlib
from importlib.resources import files
from pathlib import Path

from jinja2 import Environment, StrictUndefined

from hushrank.flows.collecting.survey.settings import (
    collect_of,
    page_headers,
    page_policy,
    page_settings,
    texts_of,
)
from hushrank.flows.config.survey import SurveyConfig
from hushrank.flows.errors import ConfigError
from hushrank.transforms.storage.write import write_whole

INDEX, SETTINGS, HEADERS = "index.html", "survey.json", "_headers"
PUBLIC = 0o644  # a web server may run as another user
COPIED = ("hushrank.js", "page.js", "survey.css")


def build_site(config: SurveyConfig) -> dict[str, bytes]:
    """Build the files of the page by name, `index.html` last.

    Raises:
        ConfigError: there is no section `collect`, or a text is missing or wrong.
    """
    collect, pages = collect_of(config), texts_of(config)
    made = {name: _resource(name) for name in COPIED}
    made[SETTINGS] = page_settings(config, pages).encode()
    headers = page_headers(collect.url)
    lines = ["/*", *(f"  {name}: {value}" for name, value in headers.items())]
    made[HEADERS] = ("\n".join(lines) + "\n").encode()
    language, page = next(iter(pages.items()))
    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True)
    template = environment.from_string(_resource("index.html.jinja").decode())
    digests = {name: digest(content) for name, content in made.items()}
    made[INDEX] = template.render(
        language=language,
        texts=page.texts,
        policy=page_policy(collect.url),
        settings=digests[SETTINGS],
        digests=digests,
    ).encode()
    return made


def write_site(made: dict[str, bytes], out: Path) -> None:
    """Write the files into `out`, which is made, or is an older build.

    Raises:
        ConfigError: `out` has files that no build makes, or cannot be written.
    """
    try:
        strange = (
            sorted({path.name for path in out.iterdir()} - made.keys()) if out.exists() else []
        )
        if strange:
            raise ConfigError(
                f"{out}: holds {strange[0][:80]}, which is not of a survey page; name a new folder"
            )
        out.mkdir(parents=True, exist_ok=True)
        for name, content in made.items():
            write_whole(str(out / name), content)
            (out / name).chmod(PUBLIC)
    except OSError as error:
        raise ConfigError(
            f"{out}: cannot be written ({error.strerror}); name another folder"
        ) from None


def digest(content: bytes) -> str:
    """The SHA-256 of a file, in the form of the attribute `integrity`."""
    return f"sha256-{base64.b64encode(hashlib.sha256(content).digest()).decode()}"


def _resource(name: str) -> bytes:
    return files("hushrank.flows.collecting.survey").joinpath("files", name).read_bytes()

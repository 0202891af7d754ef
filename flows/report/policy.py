"""What a browser may do with the page: its own style and script by their hashes, nothing else.

References:
    W3C. Content Security Policy Level 3, section 2.3.1 (hash sources).
"""

from __future__ import annotations

import base64
import hashlib


def policy_of(style: str, script: str) -> str:
    """The content-security policy of a page with this one `style` and this one `script` element.

    No attribute may hold style or script, nothing is fetched, no form is sent, and no base changes
    where links lead: a name that became markup could still do nothing.

    Args:
        style, script: the text of the element, to the byte.
    """
    return (
        f"default-src 'none'; style-src '{_hash(style)}'; script-src '{_hash(script)}';"
        " base-uri 'none'; form-action 'none'"
    )


def _hash(text: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"

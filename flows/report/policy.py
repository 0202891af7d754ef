"""What a browser may do with the page: use its own style and script, known by hashes, only.

References:
    W3C. Content Security Policy Level 3, section 2.3.1 (hash sources).
"""

from __future__ import annotations

import base64
import hashlib


def policy_of(style: str, script: str) -> str:
    """The content-security policy of a page with this one `style` and this one `script` element.

    No attribute may hold style or script, nothing is fetched, no form is sent, and no base element
    changes links. So even a name that became markup could do nothing.

    Args:
        style, script: the exact text of the element.
    """
    return (
        f"default-src 'none'; style-src '{_hash(style)}'; script-src '{_hash(script)}';"
        " base-uri 'none'; form-action 'none'"
    )


def _hash(text: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"

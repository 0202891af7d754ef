"""What a browser may do with the page: load its own files, and send to the collector. No more.

References:
    W3C. Content Security Policy Level 3. Trusted Types: no text ever becomes HTML or script.
"""

from __future__ import annotations

from urllib.parse import urlsplit

_DIRECTIVES = (
    "default-src 'none'",
    "script-src 'self'",
    "style-src 'self'",
    "img-src data:",  # the empty icon, so that browsers do not ask for one
    "base-uri 'none'",
    "form-action 'none'",
    "require-trusted-types-for 'script'",
    "trusted-types 'none'",
)


def page_policy(url: str) -> str:
    """The content-security policy of the page, as its meta element states it.

    Args:
        url: `collect.url`; its origin is the only one besides the page's own.
    """
    parts = urlsplit(url)
    origin = f" {parts.scheme}://{parts.netloc}" if parts.netloc else ""
    return "; ".join((*_DIRECTIVES, f"connect-src 'self'{origin}"))


def page_headers(url: str) -> dict[str, str]:
    """The headers with which the page's files are served best.

    They repeat the policy and add what a meta element cannot say: that no page may frame this one.
    """
    return {
        "Content-Security-Policy": f"{page_policy(url)}; frame-ancestors 'none'",
        "Cache-Control": "no-cache",
        "Cross-Origin-Opener-Policy": "same-origin",
        "Cross-Origin-Resource-Policy": "same-origin",
        "Permissions-Policy": "camera=(), geolocation=(), microphone=(), browsing-topics=()",
        "Referrer-Policy": "no-referrer",
        "X-Content-Type-Options": "nosniff",
        "X-Frame-Options": "DENY",
    }

"""Who is answered: one browser of this machine that knows the page's secret address.

Every request is checked, before anything else looks at it. The first part of its path must be the
secret; `Host` must be the address that was printed, so that a name of another site that points to
127.0.0.1 is refused (DNS rebinding); and `Origin` must be this page, so that no other site can send
anything. A request that changes something must state its origin.
"""

from __future__ import annotations

import hmac
from dataclasses import dataclass

from starlette.datastructures import Headers
from starlette.responses import JSONResponse, RedirectResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from hushrank.privacy.randomness import system_bits

SECRET_BYTES = 24
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:;"
    " connect-src 'self'; frame-src 'self'; base-uri 'none'; form-action 'none';"
    " frame-ancestors 'none'"
)
# A report or a picture is a page of its own: its scripts are its own, and it reaches nothing.
SHOWN_POLICY = (
    "sandbox allow-scripts allow-downloads allow-popups; default-src 'none';"
    " script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data: blob:;"
    " frame-ancestors 'self'"
)
HEADERS = {
    "cache-control": "no-store",
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
}
READING = ("GET", "HEAD")


def new_secret() -> str:
    """Draw the secret of a page, from the operating system."""
    return system_bits().take(SECRET_BYTES).hex()


@dataclass(frozen=True)
class Guard:
    """Wrapper of an application that answers only whoever may.

    Attributes:
        app: the application; it sees paths without the secret.
        secret: first part of the path.
        host: address and port that a browser must state.
    """

    app: ASGIApp
    secret: str
    host: str

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or refuse it without saying whether its path exists."""
        if scope["type"] != "http":
            return
        why = self.objection(scope["method"], scope["path"], Headers(scope=scope))
        if why:
            await JSONResponse({"error": why}, 403, HEADERS)(scope, receive, send)
            return
        rest = scope["path"].removeprefix(f"/{self.secret}")
        if not rest:  # names of files on the page are relative
            await RedirectResponse(f"/{self.secret}/")(scope, receive, send)
            return

        async def with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                given = {name.lower() for name, _ in message["headers"]}
                more = HEADERS | {"content-security-policy": POLICY}
                message["headers"] = [
                    *message["headers"],
                    *(
                        (name.encode(), value.encode())
                        for name, value in more.items()
                        if name.encode() not in given
                    ),
                ]
            await send(message)

        await self.app({**scope, "path": rest, "raw_path": rest.encode()}, receive, with_headers)

    def objection(self, method: str, path: str, headers: Headers) -> str:
        """Say why a request is refused; empty: it is answered."""
        if headers.getlist("host") != [self.host]:
            return "this page has another address"
        origin = headers.getlist("origin")
        if origin and origin != [f"http://{self.host}"]:
            return "another site may not use this page"
        if not origin and method not in READING:
            return "a request that changes something must come from this page"
        given = path.removeprefix("/").partition("/")[0]
        if not hmac.compare_digest(given.encode(), self.secret.encode()):
            return "open the address that hushrank app printed"
        return ""

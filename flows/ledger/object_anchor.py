"""An anchor in Cloud Storage, best in a bucket of another account: one object for each head.

Objects are created and never replaced or deleted, so an account with roles that only create and
read is enough (`roles/storage.objectCreator` and `roles/storage.objectViewer`), and a retention
policy may lock them. Their names sort as the heads do.
"""

from __future__ import annotations

from hushrank.flows.ledger.anchor import conflict, damaged, unreachable
from hushrank.flows.ledger.signing import Anchored, Head
from hushrank.transforms.storage.cloud_storage import CloudPath, ObjectChanged


class ObjectAnchor:
    """The `Anchor` of a gs:// folder.

    Args:
        folder: of the objects; nothing else may be in it.
    """

    def __init__(self, folder: CloudPath) -> None:
        self._folder = folder
        self._read: tuple[str, Anchored] | None = None  # an object never changes: it is read once

    @property
    def place(self) -> str:
        """Its URL."""
        return str(self._folder)

    def latest(self) -> Anchored | None:
        """The object whose name sorts last."""
        try:
            names = [found.path.name for found in self._folder.objects()]
            if not names:
                return None
            name = max(names)
            if self._read is not None and self._read[0] == name:
                return self._read[1]
            found = Anchored.of((self._folder / name).read_bytes())
        except OSError as error:
            raise unreachable(self.place, "read", _reason(error)) from None
        except ValueError:
            raise damaged(self.place) from None
        if found.head.name != name:
            raise damaged(self.place)
        self._read = name, found
        return found

    def records(self) -> bytes:
        """The last object alone: there is one for each entry of the ledger."""
        found = self.latest()
        try:
            return b"" if found is None else (self._folder / found.head.name).read_bytes()
        except OSError as error:
            raise unreachable(self.place, "read", _reason(error)) from None

    def put(self, head: Head, record: bytes) -> None:
        """Create the object of `head`; see `Anchor.put`."""
        path = self._folder / head.name
        try:
            path.create(record)
        except ObjectChanged:
            self._require_same(path, head)
        except OSError as error:
            raise unreachable(self.place, "written", _reason(error)) from None

    def _require_same(self, path: CloudPath, head: Head) -> None:
        """Accept an object of the same head, with another signature or none."""
        try:
            found = Anchored.of(path.read_bytes()).head
        except OSError as error:
            raise unreachable(self.place, "read", _reason(error)) from None
        except ValueError:
            raise damaged(self.place) from None
        if found.hash != head.hash:
            raise conflict(self.place, head)


def _reason(error: OSError) -> str:
    return error.strerror or type(error).__name__

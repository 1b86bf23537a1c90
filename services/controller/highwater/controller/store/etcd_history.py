"""The newest etcd revision that this process has seen, to check whether an answer is older.

Every answer's header names the cluster and the revision of the answering member. A linearizable
answer is never older than what was seen before the request, unless etcd was put back to an older
state.
"""

import threading
from typing import Any

from highwater.controller.store.port import StoreWentBackError


class EtcdHistory:
    """The newest revision seen. Used from the loop and from the store's thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._cluster_id = 0
        self._revision = 0

    @property
    def revision(self) -> int:
        """The newest revision seen, 0 before the first answer."""
        return self._revision

    def note(self, header: Any) -> bool:
        """Takes the header of any answer; False if it is older than what was seen.

        That proves nothing: members may lag, and streams answer without a quorum.
        """
        with self._lock:
            if self._cluster_id not in (0, header.cluster_id):
                return False
            self._cluster_id = header.cluster_id
            if header.revision < self._revision:
                return False
            self._revision = header.revision
            return True

    def check(self, header: Any, seen: int) -> None:
        """Takes the header of a linearizable answer; `seen` was `revision` before the call.

        Raises StoreWentBackError.
        """
        if self._cluster_id not in (0, header.cluster_id):
            raise StoreWentBackError(
                f"etcd is another cluster: its id is {header.cluster_id:x}, "
                f"and was {self._cluster_id:x}"
            )
        if header.revision < seen:
            raise StoreWentBackError(f"etcd went back from revision {seen} to {header.revision}")
        self.note(header)

    def check_key(self, mod_revision: int, known: int) -> None:
        """Takes the revision of a key that only this process changes. Raises StoreWentBackError.

        It shows a loss even if elections have meanwhile moved the store's own revision on.
        """
        if mod_revision < known:
            raise StoreWentBackError(
                f"etcd went back: what was written at revision {known} is not there, "
                f"the key is of revision {mod_revision}"
            )

"""Values kept in memory up to a number of bytes, those used last the longest."""

from collections import OrderedDict
from threading import Lock

# What Python takes for an entry beside the value: its name, the two objects' headers, the places in the map.
_ENTRY_BYTES = 300


class RecentValues:
    """At most ``n_bytes`` of values by name, counted with what their places take; safe to share."""

    def __init__(self, n_bytes: int) -> None:
        self._most_bytes = n_bytes
        self._values: OrderedDict[str, bytes] = OrderedDict()
        self._lock = Lock()
        self.n_bytes = 0

    def __len__(self) -> int:
        return len(self._values)

    def get(self, name: str) -> bytes | None:
        """The value kept under a name, if it still is."""
        with self._lock:
            value = self._values.get(name)
            if value is not None:
                self._values.move_to_end(name)
            return value

    def put(self, name: str, value: bytes) -> None:
        """Keeps a value and lets go of those unused for longest; one larger than everything is not kept."""
        n_bytes = len(value) + _ENTRY_BYTES
        if n_bytes > self._most_bytes:
            return
        with self._lock:
            self._forget(self._values.pop(name, None))
            self._values[name] = value
            self.n_bytes += n_bytes
            while self.n_bytes > self._most_bytes:
                self._forget(self._values.popitem(last=False)[1])

    def _forget(self, value: bytes | None) -> None:
        if value is not None:
            self.n_bytes -= len(value) + _ENTRY_BYTES

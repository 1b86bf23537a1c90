"""Collects indented source lines, struct formats in use, and local names without clashes."""

import struct
from collections.abc import Iterator
from contextlib import contextmanager

_NAME_OF = {"?": "o", "16s": "u"}


class CodeWriter:
    """The source of one module while it is being written."""

    def __init__(self) -> None:
        """Start with nothing."""
        self.lines: list[str] = []
        self._indent = 0
        self._unpackers: dict[str, str] = {}
        self._packers: dict[str, str] = {}

    def line(self, text: str = "") -> None:
        """Add one line at the current indentation."""
        self.lines.append("    " * self._indent + text if text else "")

    @contextmanager
    def block(self, head: str) -> Iterator[None]:
        """Add a line that ends in a colon and indent what follows inside the `with`."""
        self.line(head)
        self._indent += 1
        yield
        self._indent -= 1

    def unpacker(self, formats: list[str]) -> str:
        """Return the name of the module constant that unpacks these formats."""
        return self._struct(self._unpackers, "_U_", formats)

    def packer(self, formats: list[str]) -> str:
        """Return the name of the module constant that packs these formats."""
        return self._struct(self._packers, "_P_", formats)

    def struct_lines(self) -> list[str]:
        """Return the definitions of all constants that were named."""
        return [
            f'{name} = Struct(">{joined}").{method}'
            for table, method in ((self._unpackers, "unpack_from"), (self._packers, "pack"))
            for joined, name in sorted(table.items())
        ]

    def _struct(self, table: dict[str, str], prefix: str, formats: list[str]) -> str:
        name = prefix + "".join(_NAME_OF.get(item, item) for item in formats)
        table["".join(formats)] = name
        return name


class LocalNames:
    """Hands out local variable names, each only once in a function."""

    def __init__(self, reserved: tuple[str, ...]) -> None:
        """Start with names that must not be handed out."""
        self._used = dict.fromkeys(reserved, 1)

    def new(self, base: str) -> str:
        """Return `base`, or `base_2` and so on when it is taken."""
        count = self._used.get(base, 0) + 1
        self._used[base] = count
        return base if count == 1 else f"{base}_{count}"


def formats_size(formats: list[str]) -> int:
    """Bytes that the formats take, big-endian without padding."""
    return struct.calcsize(">" + "".join(formats))

"""Version ranges as the schemas write them: "3", "1-4", "2+", "none"."""

from dataclasses import dataclass
from typing import Self

UNBOUNDED = 32_767


@dataclass(frozen=True, slots=True)
class VersionRange:
    """The versions low..high, inclusive; empty when high is below low."""

    low: int
    high: int

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read a range in the notation of the schemas."""
        if text == "none":
            return cls(0, -1)
        if text.endswith("+"):
            return cls(int(text[:-1]), UNBOUNDED)
        low, _, high = text.partition("-")
        return cls(int(low), int(high or low))

    def __contains__(self, version: object) -> bool:
        """Say whether the version lies in the range."""
        return isinstance(version, int) and self.low <= version <= self.high

    def versions(self) -> range:
        """Return the versions as a range; only for bounded ones."""
        return range(self.low, self.high + 1)

    def __str__(self) -> str:
        """Write the range as the schemas do."""
        if self.high < self.low:
            return "none"
        if self.high == UNBOUNDED:
            return f"{self.low}+"
        return str(self.low) if self.low == self.high else f"{self.low}-{self.high}"

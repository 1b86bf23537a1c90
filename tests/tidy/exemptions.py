"""What does not follow the style rules yet, or has a reason not to: `exempt/<rule>.txt`.

The lists only shrink. A test fails when an entry is no longer needed, and `make fix` takes such
entries out (`python -m tests.tidy.exemptions`). Lines that begin with # say why the entries below
are there.
"""

from pathlib import Path

from tests.tidy.measures import MEASURES

DIRECTORY = Path(__file__).resolve().parent / "exempt"


def exempt(rule: str) -> set[str]:
    """The entries of one rule."""
    return {line for line in _lines(rule) if line and not line.startswith("#")}


def assert_only_exempt(rule: str, advice: str) -> None:
    """Fails for violations that are not exempt, and for exemptions without a violation."""
    found, allowed = MEASURES[rule](), exempt(rule)
    assert sorted(found - allowed) == [], advice
    assert sorted(allowed - found) == [], "no longer needed: make fix takes them out"


def shrink(rule: str) -> None:
    """Takes out the entries that are no longer needed."""
    found = MEASURES[rule]()
    kept = [line for line in _lines(rule) if not line or line.startswith("#") or line in found]
    (DIRECTORY / f"{rule}.txt").write_text("".join(f"{line}\n" for line in kept))


def _lines(rule: str) -> list[str]:
    return (DIRECTORY / f"{rule}.txt").read_text(encoding="utf-8").splitlines()


if __name__ == "__main__":
    for name in MEASURES:
        shrink(name)

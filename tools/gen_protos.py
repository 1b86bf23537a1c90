"""Generates protos/gen from protos/highwater (run by `make proto` and `make verify-proto`).

Usage: python tools/gen_protos.py [--check]. With --check it writes nothing and exits 1 if the
checked-in files differ from what the protos now generate.
"""

import filecmp
import sys
import tempfile
from pathlib import Path

import grpc_tools
from grpc_tools import protoc

ROOT = Path(__file__).resolve().parent.parent
PROTOS = ROOT / "protos"
OUT = PROTOS / "gen"


def generate(out: Path) -> None:
    """Runs protoc on all our .proto files, with `out` as output directory."""
    well_known = Path(grpc_tools.__file__).parent / "_proto"
    files = sorted(str(p.relative_to(PROTOS)) for p in (PROTOS / "highwater").rglob("*.proto"))
    out.mkdir(parents=True, exist_ok=True)
    args = [
        "protoc",
        f"-I{PROTOS}",
        f"-I{well_known}",
        f"--python_out={out}",
        f"--pyi_out={out}",
        f"--grpc_python_out={out}",
        *files,
    ]
    if protoc.main(args) != 0:
        sys.exit("protoc failed")


def differing(fresh: Path) -> list[str]:
    """Relative paths that are missing, extra or different in OUT."""
    new = {p.relative_to(fresh) for p in fresh.rglob("*.py*") if p.is_file()}
    old = {p.relative_to(OUT) for p in OUT.rglob("*_pb2*.py*") if "__pycache__" not in p.parts}
    same = {p for p in new & old if filecmp.cmp(fresh / p, OUT / p, shallow=False)}
    return sorted(str(p) for p in (new | old) - same)


def main() -> None:
    """Writes the generated files, or checks them."""
    if "--check" not in sys.argv[1:]:
        generate(OUT)
        return
    with tempfile.TemporaryDirectory() as scratch:
        generate(Path(scratch))
        stale = differing(Path(scratch))
    if stale:
        sys.exit("generated protos are stale, run `make proto`: " + ", ".join(stale))


if __name__ == "__main__":
    main()

"""Command line: `python -m tools.codegen` writes the modules, `--check` only compares.

Run it from the root of the repository.
"""

import argparse
import sys
from pathlib import Path

from tools.codegen.modules import api_module, data_module, index_module, pair_apis
from tools.codegen.names import snake_case
from tools.codegen.schema import load_message

KAFKA_PACKAGE = Path(__file__).parents[2] / "services" / "shared" / "highwater" / "kafka"


def generate(schemas: Path) -> dict[str, str]:
    """Return the sources of all generated files by path below `highwater/kafka`."""
    messages = [load_message(path) for path in sorted(schemas.glob("*.json"))]
    apis = pair_apis(messages)
    files = {f"messages/{api.name}.py": api_module(api) for api in apis}
    for message in messages:
        if message.kind == "data":
            files[f"messages/{snake_case(message.name)}.py"] = data_module(message)
    files["message_index.py"] = index_module(apis)
    return files


def differences(package: Path) -> list[str]:
    """Return the files that are missing, stale, or not generated any more."""
    files = generate(package / "schemas")
    found = []
    for name, source in files.items():
        path = package / name
        if not path.exists() or path.read_text(encoding="utf-8") != source:
            found.append(name)
    known = {*files, "messages/__init__.py"}
    present = [f"messages/{path.name}" for path in sorted((package / "messages").glob("*.py"))]
    return found + [name for name in present if name not in known]


def write(package: Path) -> int:
    """Write all files and return their number."""
    files = generate(package / "schemas")
    for name, source in files.items():
        path = package / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(source, encoding="utf-8")
    return len(files)


def main(arguments: list[str]) -> int:
    """Run the command and return its exit code."""
    parser = argparse.ArgumentParser(prog="python -m tools.codegen", description=__doc__)
    parser.add_argument("--check", action="store_true", help="compare only; exit 1 when stale")
    options = parser.parse_args(arguments)
    if options.check:
        stale = differences(KAFKA_PACKAGE)
        for name in stale:
            print(f"stale: {name}")
        return 1 if stale else 0
    print(f"wrote {write(KAFKA_PACKAGE)} files")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""docs/apis.md, from the gateway's table of APIs and the docstrings of its handlers."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from highwater.gateway.handling.apis import APIS, Api
from highwater.kafka.api_keys import ApiKey

ROOT = Path(__file__).resolve().parents[2]
GATEWAY = ROOT / "services/gateway/highwater/gateway"
PATHS = {ApiKey.PRODUCE: "data_plane/produce_path.py", ApiKey.FETCH: "data_plane/fetch_path.py"}

_HEAD = """\
# Kafka APIs

Made by `make docs` from the gateway's table (`highwater.gateway.handling.apis`) and from what each
API's file says of itself; not to be edited.

Every version between the two is served. A request of another version, or of an API that is not in
the table, closes the connection, as in Kafka; ApiVersions answers every version.
"""


def page() -> str:
    """The whole text."""
    rows = ["| API | key | versions | |", "|---|---|---|---|"]
    differences: list[str] = []
    for api in APIS.values():
        source, text = _docstring_of(api)
        summary = _summary(text)
        rows.append(
            f"| [{_name(api.key)}]({source}) | {int(api.key)} | {_versions(api)} | {summary} |"
        )
        told = list(_deviations(text))
        if told:
            differences += [f"### {_name(api.key)}", "", *told, ""]
    missing = ", ".join(_name(key) for key in ApiKey if int(key) not in APIS)
    return "\n".join([
        _HEAD,
        *rows,
        "",
        "## Where we differ from Kafka",
        "",
        *differences,
        "## Not served",
        "",
        f"Those between Kafka's brokers included: {missing}.",
        "",
    ])  # fmt: skip


def _docstring_of(api: Api) -> tuple[str, str]:
    """(link from docs/, text) of the file that serves an API."""
    path = GATEWAY / (PATHS[api.key] if api.module is None else f"handlers/{api.module}.py")
    text = ast.get_docstring(ast.parse(path.read_text()))
    assert text is not None, f"{path} says nothing of itself"
    return f"../{path.relative_to(ROOT)}", text


def _name(key: ApiKey) -> str:
    return "".join(word.capitalize() for word in key.name.split("_"))


def _versions(api: Api) -> str:
    served = f"{api.served_from}-{api.max_version}"
    if api.served_from == api.max_version:
        served = str(api.max_version)
    if api.served_from > api.min_version:
        return f"{served} (told as {api.min_version}-{api.max_version})"
    return served


def _summary(text: str) -> str:
    """What follows the name and versions in the first sentence, which may be several lines."""
    first = " ".join(text.split("\n\n", 1)[0].split())
    _, _, summary = first.partition(": ")
    return (summary or first).rstrip(".")


def _deviations(text: str) -> Iterator[str]:
    """The lines of the section "Deviations"."""
    found = re.search(r"^Deviations\n((?:.+\n?)+)", text, re.MULTILINE)
    if found is not None:
        yield from found.group(1).rstrip().splitlines()

"""Which messages have a schema: those that are served, and those whose reason is written down."""

import re
from pathlib import Path

import highwater.kafka
from highwater.gateway.handling.apis import APIS
from highwater.kafka.message_index import API_MODULES
from tools.codegen.names import snake_case

SCHEMAS = Path(highwater.kafka.__path__[0]) / "schemas"
HEADERS = {"request_header", "response_header"}


def test_a_schema_is_served_or_has_a_reason() -> None:
    present = {
        snake_case(re.sub("(Request|Response)$", "", path.stem))
        if not path.stem.endswith("Header")
        else snake_case(path.stem)
        for path in SCHEMAS.glob("*.json")
    }
    served = {module for key, module in API_MODULES.items() if key in APIS}
    rows = re.findall(
        r"^\| ([A-Z].*?) \|", (SCHEMAS / "NOTICE.md").read_text("utf-8"), re.MULTILINE
    )
    waiting = {snake_case(name) for row in rows for name in row.split(", ")}
    assert not served & waiting, "served now: their reason can go"
    assert present == served | waiting | HEADERS

"""A teller's librdkafka client in a process of its own, which tests kill: `python -m` BOOTSTRAP REQUEST.

Reads and writes what `tools/frameworks/Teller.java` does. Its parent may end it by SIGKILL at any time.
"""

from __future__ import annotations

import base64
import json
import sys

from tests.robustness.faults.client_settings import PATIENT
from tests.robustness.faults.transactions.clients import LibrdkafkaClient
from tests.robustness.faults.transactions.ledger import Outcome


def main() -> None:
    """Until the input ends."""
    request = json.loads(sys.argv[2])
    client = LibrdkafkaClient(
        {**PATIENT, "bootstrap.servers": sys.argv[1]},
        request["topic"],
        request["transactional_id"],
        timeout_s=request["transaction_timeout_ms"] / 1000,
    )
    for line in sys.stdin:
        order = json.loads(line)
        records = [
            (message["partition"], base64.b64decode(message["value"]))
            for message in order["messages"]
        ]
        told: dict[str, str] = {}
        if order.get("hold"):
            client.hold(records)
            told["outcome"] = Outcome.OPEN.value
        else:
            replaced = len(client.replaced)
            told["outcome"] = client.transact(records, abort=order["abort"]).value
            if len(client.replaced) > replaced:
                told["error"] = client.replaced[-1]
        print(json.dumps(told), flush=True)


if __name__ == "__main__":
    main()

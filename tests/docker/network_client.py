"""A client inside of the stack's network: runs in a container, with nothing but kafka-python.

    network_client.py BOOTSTRAP TOPIC COUNT PREFIX

Waits until the topic has COUNT records of others, sends as many of its own, whose values begin with
PREFIX, and prints as JSON what it was told and has read.
"""

import json
import sys
import time

from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer

PATIENCE_S = 60
POLL_MS = 1_000


def main(bootstrap: str, topic: str, count: int, prefix: str) -> None:
    admin = KafkaAdminClient(bootstrap_servers=bootstrap)
    brokers = admin.describe_cluster()["brokers"]
    admin.close()
    consumer = KafkaConsumer(
        topic,
        bootstrap_servers=bootstrap,
        group_id=f"g-{prefix}",
        auto_offset_reset="earliest",
        enable_auto_commit=False,
    )
    read: list[str] = []
    deadline = time.monotonic() + PATIENCE_S
    while len(read) < count and time.monotonic() < deadline:
        for records in consumer.poll(timeout_ms=POLL_MS).values():
            read += [record.value.decode() for record in records]
    consumer.commit()
    consumer.close()
    producer = KafkaProducer(bootstrap_servers=bootstrap, acks="all")
    sent = [f"{prefix}-{number}" for number in range(count)]
    for future in [producer.send(topic, value.encode()) for value in sent]:
        future.get(PATIENCE_S)
    producer.close()
    told = {one["broker_id"]: [one["host"], one["port"]] for one in brokers}
    print(json.dumps({"brokers": told, "read": read, "sent": sent}))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4])

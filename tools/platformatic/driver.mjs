// node driver.mjs COMMAND BOOTSTRAP REQUEST: drives @platformatic/kafka for the conformance tests.
// Commands and JSON are those of tools/goclients/driver, without `copy` and `version`.

import { randomUUID } from "node:crypto";
import { readFileSync } from "node:fs";
import { createInterface } from "node:readline";
import { Consumer, MessagesStreamFallbackModes, MessagesStreamModes, Producer } from "@platformatic/kafka";

const BEGINNING = -2;
const SESSION_TIMEOUT_MS = 10_000;
const HEARTBEAT_INTERVAL_MS = 500;
const LOOK_MS = 100;

const decode = (text) => (text === null ? undefined : Buffer.from(text, "base64"));
const encode = (bytes) => (bytes === null || bytes === undefined ? null : bytes.toString("base64"));
const print = (object) => process.stdout.write(`${JSON.stringify(object)}\n`);

function recordOf(message) {
  return {
    partition: message.partition,
    offset: String(message.offset),
    timestamp: String(message.timestamp),
    key: encode(message.key),
    value: encode(message.value),
    headers: [...message.headers].map(([name, value]) => [name.toString(), encode(value)]),
  };
}

function sent(topic, { key, value, headers, partition, timestamp }) {
  return {
    topic,
    key: decode(key),
    value: decode(value),
    headers: new Map(headers.map(([name, value]) => [Buffer.from(name), decode(value)])),
    ...(partition === undefined ? {} : { partition }),
    ...(timestamp === undefined ? {} : { timestamp: BigInt(timestamp) }),
  };
}

async function produce(base, { topic, codec, acks, messages }) {
  const producer = new Producer({ ...base, autocreateTopics: false });
  await producer.send({
    acks,
    compression: codec,
    messages: messages.map((message) => sent(topic, message)),
  });
  await producer.close();
}

async function transact(base, { topic, transactional_id: transactionalId }) {
  const producer = new Producer({ ...base, autocreateTopics: false, idempotent: true, transactionalId });
  for await (const line of createInterface({ input: process.stdin })) {
    const { abort, messages } = JSON.parse(line);
    const transaction = await producer.beginTransaction();
    await transaction.send({ messages: messages.map((message) => sent(topic, message)) });
    await (abort ? transaction.abort() : transaction.commit());
    print({ outcome: abort ? "aborted" : "committed" });
  }
  await producer.close();
}

function openConsumer(base, groupId, protocol) {
  const group =
    protocol === "consumer"
      ? { groupProtocol: "consumer" }
      : { sessionTimeout: SESSION_TIMEOUT_MS, heartbeatInterval: HEARTBEAT_INTERVAL_MS };
  return new Consumer({ ...base, groupId, ...group, autocommit: false, maxWaitTime: 100 });
}

async function consume(base, { topic, count, start }) {
  const consumer = openConsumer(base, `platformatic-${randomUUID()}`);
  const where = { mode: MessagesStreamModes.EARLIEST };
  if (start !== BEGINNING) {
    const found = await consumer.listOffsets({ topics: [topic], timestamp: BigInt(start) });
    where.mode = MessagesStreamModes.MANUAL;
    where.offsets = found.get(topic).map((offset, partition) => ({ topic, partition, offset }));
  }
  const stream = await consumer.consume({ topics: [topic], ...where });
  let printed = 0;
  for await (const message of stream) {
    print(recordOf(message));
    printed += 1;
    if (printed === count) break;
  }
  await consumer.close(true);
}

async function join(base, { group, topic, protocol }) {
  const consumer = openConsumer(base, group, protocol);
  const next = new Map();
  let assigned = [];
  const tell = (assignments) => {
    assigned = (assignments ?? []).filter((one) => one.topic === topic).flatMap((one) => one.partitions);
    print({ event: "assigned", partitions: assigned });
  };
  if (protocol === "consumer") {
    // No event has the assignment then: it changes with answers to heartbeats.
    let told = null;
    setInterval(() => {
      if (consumer.assignments !== told) tell((told = consumer.assignments));
    }, LOOK_MS).unref();
  } else {
    consumer.on("consumer:group:join", ({ assignments }) => tell(assignments));
  }
  process.on("SIGTERM", async () => {
    await consumer.close(true);
    process.exit(0);
  });
  createInterface({ input: process.stdin }).on("line", async () => {
    const offsets = [...next]
      .filter(([partition]) => assigned.includes(partition))
      .map(([partition, offset]) => ({ topic, partition, offset, leaderEpoch: -1 }));
    await consumer.commit({ offsets });
    print({ event: "committed" });
  });
  const stream = await consumer.consume({
    topics: [topic],
    mode: MessagesStreamModes.COMMITTED,
    fallbackMode: MessagesStreamFallbackModes.EARLIEST,
  });
  for await (const message of stream) {
    next.set(message.partition, message.offset + 1n);
    print({ event: "record", ...recordOf(message) });
  }
}

const COMMANDS = { produce, consume, join, transact };

const [command, bootstrap, request] = process.argv.slice(2);
const base = { clientId: "highwater-conformance", bootstrapBrokers: [bootstrap] };
const text = request === "-" ? readFileSync(0, "utf8") : request;
await COMMANDS[command](base, JSON.parse(text));

// node driver.mjs COMMAND BOOTSTRAP REQUEST: drives KafkaJS for the conformance tests.
//
// REQUEST is JSON, or "-" to read it from stdin. Keys, values and header values are base64.
//   produce {topic, codec, acks, messages}   sends, exits 0 when acknowledged
//   consume {topic, count, start}            prints `count` records, one JSON object per line
//   join {group, topic}                      prints events until SIGTERM; the line "commit" commits
//   transact {topic, transactional_id}       a transaction for each line {abort, messages}: prints its outcome
//   admin {calls: [[method, argument]...]}   prints the result of each admin call, or its error
// Every request may have {security: {tls: {ca, cert, key}, mechanism, user, password, token}}; files are PEM.

import { randomUUID } from "node:crypto";
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { createInterface } from "node:readline";
import { CODEC_TYPES, installCodecs } from "./codecs.mjs";

const require = createRequire(import.meta.url);
const { Kafka, Partitioners, logLevel } = require("kafkajs");

const REQUEST_TIMEOUT_MS = 20_000;
const SESSION_TIMEOUT_MS = 10_000;
const HEARTBEAT_INTERVAL_MS = 500;
const BEGINNING = -2;

const decode = (text) => (text === null ? null : Buffer.from(text, "base64"));
const encode = (bytes) => (bytes === null || bytes === undefined ? null : bytes.toString("base64"));
const print = (object) => process.stdout.write(`${JSON.stringify(object)}\n`);

function recordOf(partition, message) {
  const headers = [];
  for (const [name, values] of Object.entries(message.headers ?? {})) {
    for (const value of Array.isArray(values) ? values : [values]) {
      headers.push([name, encode(value)]);
    }
  }
  return {
    partition,
    offset: message.offset,
    timestamp: message.timestamp,
    key: encode(message.key),
    value: encode(message.value),
    headers,
  };
}

function headersOf({ headers }) {
  const values = {};
  for (const [name, value] of headers) (values[name] ??= []).push(decode(value));
  return values;
}

function sent(message) {
  const { key, value } = message;
  return { ...message, key: decode(key), value: decode(value), headers: headersOf(message) };
}

async function produce(kafka, { topic, codec, acks, messages }) {
  const producer = kafka.producer({
    createPartitioner: Partitioners.DefaultPartitioner,
    allowAutoTopicCreation: false,
  });
  await producer.connect();
  await producer.send({
    topic,
    acks,
    compression: CODEC_TYPES[codec],
    messages: messages.map(sent),
  });
  await producer.disconnect();
}

async function transact(kafka, { topic, transactional_id: transactionalId }) {
  const producer = kafka.producer({
    createPartitioner: Partitioners.DefaultPartitioner,
    allowAutoTopicCreation: false,
    transactionalId,
    idempotent: true,
    maxInFlightRequests: 1,
  });
  await producer.connect();
  for await (const line of createInterface({ input: process.stdin })) {
    const { abort, messages } = JSON.parse(line);
    const transaction = await producer.transaction();
    await transaction.send({ topic, acks: -1, messages: messages.map(sent) });
    await (abort ? transaction.abort() : transaction.commit());
    print({ outcome: abort ? "aborted" : "committed" });
  }
  await producer.disconnect();
}

function openConsumer(kafka, groupId) {
  return kafka.consumer({
    groupId,
    sessionTimeout: SESSION_TIMEOUT_MS,
    heartbeatInterval: HEARTBEAT_INTERVAL_MS,
    maxWaitTimeInMs: 100,
    allowAutoTopicCreation: false,
  });
}

async function consume(kafka, { topic, count, start }) {
  const consumer = openConsumer(kafka, `kafkajs-${randomUUID()}`);
  await consumer.connect();
  await consumer.subscribe({ topic, fromBeginning: true });
  let offsets = [];
  if (start !== BEGINNING) {
    const admin = kafka.admin();
    await admin.connect();
    offsets = await admin.fetchTopicOffsetsByTimestamp(topic, start);
    await admin.disconnect();
  }
  let printed = 0;
  const done = new Promise((resolve) => {
    consumer.run({
      autoCommit: false,
      eachMessage: async ({ partition, message }) => {
        print(recordOf(partition, message));
        printed += 1;
        if (printed === count) resolve();
      },
    });
  });
  for (const { partition, offset } of offsets) consumer.seek({ topic, partition, offset });
  await done;
  await consumer.disconnect();
}

async function join(kafka, { group, topic }) {
  const consumer = openConsumer(kafka, group);
  const next = new Map();
  let assigned = [];
  consumer.on(consumer.events.GROUP_JOIN, ({ payload }) => {
    assigned = payload.memberAssignment[topic] ?? [];
    print({ event: "assigned", partitions: assigned });
  });
  process.on("SIGTERM", async () => {
    await consumer.disconnect();
    process.exit(0);
  });
  createInterface({ input: process.stdin }).on("line", async () => {
    const offsets = [...next]
      .filter(([partition]) => assigned.includes(partition))
      .map(([partition, offset]) => ({ topic, partition, offset }));
    await consumer.commitOffsets(offsets);
    print({ event: "committed" });
  });
  await consumer.connect();
  await consumer.subscribe({ topic, fromBeginning: true });
  await consumer.run({
    autoCommit: false,
    eachMessage: async ({ partition, message }) => {
      next.set(partition, String(BigInt(message.offset) + 1n));
      print({ event: "record", ...recordOf(partition, message) });
    },
  });
}

async function admin(kafka, { calls }) {
  const client = kafka.admin();
  await client.connect();
  for (const [method, argument] of calls) {
    try {
      print({ result: (await client[method](argument)) ?? null });
    } catch (error) {
      const cause = error.errors?.[0] ?? error.cause ?? error;
      print({ error: error.message, code: cause.code ?? null, type: cause.type ?? null });
    }
  }
  await client.disconnect();
}

function securityOf({ tls, mechanism, user, password, token }) {
  const read = (path) => (path ? readFileSync(path) : undefined);
  const ssl = tls && { ca: read(tls.ca), cert: read(tls.cert), key: read(tls.key) };
  if (!mechanism) return { ssl };
  const name = mechanism.toLowerCase();
  const oauthBearerProvider = async () => ({ value: token });
  const sasl =
    name === "oauthbearer"
      ? { mechanism: name, oauthBearerProvider }
      : { mechanism: name, username: user, password };
  return { ssl, sasl };
}

const COMMANDS = { produce, consume, join, transact, admin };

const [command, bootstrap, request] = process.argv.slice(2);
await installCodecs();
const asked = JSON.parse(request === "-" ? readFileSync(0, "utf8") : request);
const kafka = new Kafka({
  clientId: "highwater-conformance",
  brokers: [bootstrap],
  requestTimeout: REQUEST_TIMEOUT_MS,
  retry: { retries: 5, initialRetryTime: 100 },
  logLevel: logLevel.NOTHING,
  ...securityOf(asked.security ?? {}),
});
await COMMANDS[command](kafka, asked);

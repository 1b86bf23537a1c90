//! rustclient COMMAND BOOTSTRAP REQUEST: drives the rdkafka crate for the conformance tests.
//! Commands and JSON are those of tools/goclients/driver, without `copy` and `version`.

use std::collections::BTreeMap;
use std::error::Error;
use std::io::{BufRead, Read, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{mpsc, Arc};
use std::time::Duration;

use base64::engine::general_purpose::STANDARD;
use base64::Engine;
use rdkafka::config::ClientConfig;
use rdkafka::consumer::{BaseConsumer, CommitMode, Consumer, ConsumerContext, Rebalance};
use rdkafka::error::KafkaResult;
use rdkafka::message::{BorrowedMessage, Header, Headers, Message, OwnedHeaders};
use rdkafka::producer::{BaseProducer, BaseRecord, DeliveryResult, Producer, ProducerContext};
use rdkafka::{ClientContext, Offset, TopicPartitionList};
use serde::{Deserialize, Serialize};

const TIMEOUT: Duration = Duration::from_secs(30);
const POLL: Duration = Duration::from_millis(100);
const BEGINNING: i64 = -2;

type Failure = Box<dyn Error>;
type HeaderPair = (String, Option<String>);

#[derive(Deserialize, Default)]
#[serde(default)]
struct Request {
    topic: String,
    group: String,
    protocol: String,
    transactional_id: String,
    codec: String,
    acks: i32,
    count: usize,
    start: i64,
    messages: Vec<ToSend>,
}

#[derive(Deserialize)]
struct Transaction {
    abort: bool,
    messages: Vec<ToSend>,
}

#[derive(Deserialize)]
struct ToSend {
    partition: Option<i32>,
    timestamp: Option<String>,
    key: Option<String>,
    value: Option<String>,
    headers: Vec<HeaderPair>,
}

#[derive(Serialize)]
#[serde(tag = "event", rename_all = "lowercase")]
enum Event {
    Assigned { partitions: Vec<i32> },
    Record(Stored),
    Committed,
}

#[derive(Serialize)]
struct Told {
    outcome: &'static str,
}

#[derive(Serialize)]
struct Stored {
    partition: i32,
    offset: String,
    timestamp: String,
    key: Option<String>,
    value: Option<String>,
    headers: Vec<HeaderPair>,
}

fn main() -> Result<(), Failure> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [command, bootstrap, request] = arguments.as_slice() else {
        return Err("usage: rustclient COMMAND BOOTSTRAP REQUEST".into());
    };
    let mut text = request.clone();
    if text == "-" {
        text.clear();
        std::io::stdin().read_to_string(&mut text)?;
    }
    let request: Request = serde_json::from_str(&text)?;
    let mut config = ClientConfig::new();
    config.set("bootstrap.servers", bootstrap).set("client.id", "highwater-conformance");
    match command.as_str() {
        "produce" => produce(config, request),
        "consume" => consume(config, request),
        "join" => join(config, request),
        "transact" => transact(config, request),
        _ => Err(format!("unknown command {command:?}").into()),
    }
}

fn print(object: &impl Serialize) -> Result<(), Failure> {
    let mut output = std::io::stdout().lock();
    serde_json::to_writer(&mut output, object)?;
    output.write_all(b"\n")?;
    Ok(output.flush()?)
}

fn decode(text: &Option<String>) -> Result<Option<Vec<u8>>, Failure> {
    Ok(text.as_ref().map(|text| STANDARD.decode(text)).transpose()?)
}

fn encode(bytes: Option<&[u8]>) -> Option<String> {
    bytes.map(|bytes| STANDARD.encode(bytes))
}

fn stored(message: &BorrowedMessage) -> Stored {
    let headers = message.headers().map_or(Vec::new(), |headers| {
        headers.iter().map(|one| (one.key.to_string(), encode(one.value))).collect()
    });
    Stored {
        partition: message.partition(),
        offset: message.offset().to_string(),
        timestamp: message.timestamp().to_millis().unwrap_or(-1).to_string(),
        key: encode(message.key()),
        value: encode(message.payload()),
        headers,
    }
}

/// Tells of each record whether it was delivered.
struct Deliveries(mpsc::Sender<Result<(), String>>);

impl ClientContext for Deliveries {}

impl ProducerContext for Deliveries {
    type DeliveryOpaque = ();

    fn delivery(&self, result: &DeliveryResult<'_>, _: ()) {
        let outcome = result.as_ref().map(|_| ()).map_err(|(error, _)| error.to_string());
        self.0.send(outcome).expect("the main thread waits");
    }
}

fn produce(mut config: ClientConfig, request: Request) -> Result<(), Failure> {
    config
        .set("compression.codec", &request.codec)
        .set("acks", request.acks.to_string())
        .set("linger.ms", "50");
    let (tell, told) = mpsc::channel();
    let producer: BaseProducer<Deliveries> = config.create_with_context(Deliveries(tell))?;
    send(&producer, &told, &request.topic, &request.messages)
}

/// Returns when all messages are delivered.
fn send(
    producer: &BaseProducer<Deliveries>,
    told: &mpsc::Receiver<Result<(), String>>,
    topic: &str,
    messages: &[ToSend],
) -> Result<(), Failure> {
    for one in messages {
        let (key, value) = (decode(&one.key)?, decode(&one.value)?);
        let mut headers = OwnedHeaders::new();
        for (name, value) in &one.headers {
            headers = headers.insert(Header { key: name, value: decode(value)?.as_ref() });
        }
        let mut record: BaseRecord<Vec<u8>, Vec<u8>> = BaseRecord::to(topic).headers(headers);
        record.key = key.as_ref();
        record.payload = value.as_ref();
        record.partition = one.partition;
        record.timestamp = one.timestamp.as_ref().map(|text| text.parse()).transpose()?;
        producer.send(record).map_err(|(error, _)| error)?;
    }
    producer.flush(TIMEOUT)?;
    for _ in messages {
        told.recv_timeout(TIMEOUT)??;
    }
    Ok(())
}

/// A transaction for each line of stdin, and a line with its outcome.
fn transact(mut config: ClientConfig, request: Request) -> Result<(), Failure> {
    config.set("transactional.id", &request.transactional_id);
    let (tell, told) = mpsc::channel();
    let producer: BaseProducer<Deliveries> = config.create_with_context(Deliveries(tell))?;
    producer.init_transactions(TIMEOUT)?;
    for line in std::io::stdin().lock().lines() {
        let one: Transaction = serde_json::from_str(&line?)?;
        producer.begin_transaction()?;
        send(&producer, &told, &request.topic, &one.messages)?;
        if one.abort {
            producer.abort_transaction(TIMEOUT)?;
        } else {
            producer.commit_transaction(TIMEOUT)?;
        }
        print(&Told { outcome: if one.abort { "aborted" } else { "committed" } })?;
    }
    Ok(())
}

fn consume(mut config: ClientConfig, request: Request) -> Result<(), Failure> {
    config.set("group.id", "rustclient").set("enable.auto.commit", "false");
    let consumer: BaseConsumer = config.create()?;
    let metadata = consumer.fetch_metadata(Some(&request.topic), TIMEOUT)?;
    let mut wanted = TopicPartitionList::new();
    for partition in metadata.topics()[0].partitions() {
        let offset = if request.start == BEGINNING { Offset::Beginning } else { Offset::Offset(request.start) };
        wanted.add_partition_offset(&request.topic, partition.id(), offset)?;
    }
    if request.start != BEGINNING {
        wanted = consumer.offsets_for_times(wanted, TIMEOUT)?;
    }
    consumer.assign(&wanted)?;
    let mut printed = 0;
    while printed < request.count {
        if let Some(message) = consumer.poll(POLL) {
            print(&stored(&message?))?;
            printed += 1;
        }
    }
    Ok(())
}

/// Tells of each assignment, whether it is whole or a change.
struct Assignments {
    topic: String,
}

impl ClientContext for Assignments {}

impl ConsumerContext for Assignments {
    fn post_rebalance(&self, consumer: &BaseConsumer<Self>, _: &Rebalance<'_>) {
        let assigned = consumer.assignment().map(|list| {
            list.elements_for_topic(&self.topic).iter().map(|one| one.partition()).collect()
        });
        let partitions = assigned.unwrap_or_default();
        print(&Event::Assigned { partitions }).expect("stdout is open");
    }
}

fn join(mut config: ClientConfig, request: Request) -> Result<(), Failure> {
    config
        .set("group.id", &request.group)
        .set("enable.auto.commit", "false")
        .set("auto.offset.reset", "earliest");
    if request.protocol == "consumer" {
        config.set("group.protocol", "consumer");
    } else {
        config.set("session.timeout.ms", "10000").set("heartbeat.interval.ms", "500");
    }
    let stop = Arc::new(AtomicBool::new(false));
    signal_hook::flag::register(signal_hook::consts::SIGTERM, stop.clone())?;
    let (ask, asked) = mpsc::channel();
    std::thread::spawn(move || {
        for _ in std::io::stdin().lock().lines() {
            if ask.send(()).is_err() {
                return;
            }
        }
    });
    let consumer: BaseConsumer<Assignments> =
        config.create_with_context(Assignments { topic: request.topic.clone() })?;
    consumer.subscribe(&[&request.topic])?;
    let mut next = BTreeMap::new();
    while !stop.load(Ordering::Relaxed) {
        if let Some(message) = consumer.poll(POLL) {
            let message = message?;
            next.insert(message.partition(), message.offset() + 1);
            print(&Event::Record(stored(&message)))?;
        }
        if asked.try_recv().is_ok() {
            commit(&consumer, &request.topic, &next)?;
            print(&Event::Committed)?;
        }
    }
    Ok(())
}

fn commit(consumer: &BaseConsumer<Assignments>, topic: &str, next: &BTreeMap<i32, i64>) -> KafkaResult<()> {
    let mut offsets = TopicPartitionList::new();
    for one in consumer.assignment()?.elements_for_topic(topic) {
        if let Some(offset) = next.get(&one.partition()) {
            offsets.add_partition_offset(topic, one.partition(), Offset::Offset(*offset))?;
        }
    }
    consumer.commit(&offsets, CommitMode::Sync)
}

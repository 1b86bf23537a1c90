import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.reflect.Method;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Base64;
import java.util.Collections;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Set;
import java.util.concurrent.Future;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.consumer.OffsetAndTimestamp;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.PartitionInfo;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * Driver COMMAND BOOTSTRAP REQUEST: drives a Java client from 0.11 to 3.9 for the conformance tests.
 * Commands and JSON are those of tools/goclients/driver, without `copy` and `version`. `transact` with
 * a group also commits, in each transaction, its number as the offset of its partition.
 */
public final class Driver {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final PrintStream OUT = new PrintStream(System.out, true, StandardCharsets.UTF_8);
    private static final int POLL_MS = 100;
    private static final long BEGINNING = -2;

    private static final Method POLL = pollMethod();

    private static volatile boolean stopping;

    private static Method pollMethod() {
        try {
            return KafkaConsumer.class.getMethod("poll", Duration.class);
        } catch (NoSuchMethodException before20) {
            return null;
        }
    }

    public static void main(String[] arguments) throws Exception {
        JsonNode request = arguments[2].equals("-")
                ? JSON.readTree(System.in) : JSON.readTree(arguments[2]);
        switch (arguments[0]) {
            case "produce":
                produce(arguments[1], request);
                break;
            case "consume":
                consume(arguments[1], request);
                break;
            case "join":
                join(arguments[1], request);
                break;
            case "transact":
                transact(arguments[1], request);
                break;
            default:
                throw new IllegalArgumentException(arguments[0]);
        }
    }

    private static Properties settings(String bootstrap, String... more) {
        Properties made = new Properties();
        made.put("bootstrap.servers", bootstrap);
        made.put("client.id", "highwater-conformance");
        for (int at = 0; at < more.length; at += 2) {
            made.put(more[at], more[at + 1]);
        }
        return made;
    }

    private static void produce(String bootstrap, JsonNode request) throws Exception {
        Properties settings = settings(bootstrap,
                "compression.type", request.get("codec").asText(),
                "acks", request.get("acks").asText(), "linger.ms", "50");
        try (KafkaProducer<byte[], byte[]> producer = producer(settings)) {
            send(producer, request.get("topic").asText(), request.get("messages"));
        }
    }

    private static KafkaProducer<byte[], byte[]> producer(Properties settings) {
        return new KafkaProducer<>(settings, new ByteArraySerializer(), new ByteArraySerializer());
    }

    /** Returns when all are acknowledged. */
    private static void send(KafkaProducer<byte[], byte[]> producer, String topic, JsonNode messages)
            throws Exception {
        List<Future<?>> sent = new ArrayList<>();
        for (JsonNode one : messages) {
            Integer partition = one.hasNonNull("partition") ? one.get("partition").asInt() : null;
            Long timestamp = one.hasNonNull("timestamp") ? one.get("timestamp").asLong() : null;
            ProducerRecord<byte[], byte[]> record = new ProducerRecord<>(
                    topic, partition, timestamp, bytes(one.get("key")), bytes(one.get("value")));
            for (JsonNode header : one.get("headers")) {
                record.headers().add(header.get(0).asText(), bytes(header.get(1)));
            }
            sent.add(producer.send(record));
        }
        producer.flush();
        for (Future<?> one : sent) {
            one.get();
        }
    }

    private static void transact(String bootstrap, JsonNode request) throws Exception {
        String topic = request.get("topic").asText();
        Properties settings =
                settings(bootstrap, "transactional.id", request.get("transactional_id").asText());
        try (KafkaProducer<byte[], byte[]> producer = producer(settings)) {
            producer.initTransactions();
            int number = 0;
            BufferedReader input = input();
            for (String line = input.readLine(); line != null; line = input.readLine()) {
                JsonNode work = JSON.readTree(line);
                JsonNode messages = work.get("messages");
                producer.beginTransaction();
                send(producer, topic, messages);
                number += 1;
                if (request.hasNonNull("group")) {
                    int partition = messages.get(0).get("partition").asInt();
                    sendOffset(producer, new TopicPartition(topic, partition), number,
                            request.get("group").asText());
                }
                boolean abort = work.get("abort").asBoolean();
                if (abort) {
                    producer.abortTransaction();
                } else {
                    producer.commitTransaction();
                }
                print(JSON.createObjectNode().put("outcome", abort ? "aborted" : "committed"));
            }
        }
    }

    /** With the group's metadata where the client has that (KIP-447, from 2.5 on). */
    private static void sendOffset(
            KafkaProducer<byte[], byte[]> producer, TopicPartition partition, long offset, String group)
            throws Exception {
        Map<TopicPartition, OffsetAndMetadata> offsets =
                Collections.singletonMap(partition, new OffsetAndMetadata(offset));
        Class<?> metadata;
        try {
            metadata = Class.forName("org.apache.kafka.clients.consumer.ConsumerGroupMetadata");
        } catch (ClassNotFoundException before25) {
            producer.sendOffsetsToTransaction(offsets, group);
            return;
        }
        Object of = metadata.getConstructor(String.class).newInstance(group);
        KafkaProducer.class.getMethod("sendOffsetsToTransaction", Map.class, metadata)
                .invoke(producer, offsets, of);
    }

    private static void consume(String bootstrap, JsonNode request) throws Exception {
        String topic = request.get("topic").asText();
        long start = request.get("start").asLong();
        try (KafkaConsumer<byte[], byte[]> consumer = consumer(settings(bootstrap))) {
            List<TopicPartition> partitions = new ArrayList<>();
            Map<TopicPartition, Long> times = new HashMap<>();
            for (PartitionInfo one : consumer.partitionsFor(topic)) {
                partitions.add(new TopicPartition(topic, one.partition()));
                times.put(new TopicPartition(topic, one.partition()), start);
            }
            consumer.assign(partitions);
            if (start == BEGINNING) {
                consumer.seekToBeginning(partitions);
            } else {
                Map<TopicPartition, OffsetAndTimestamp> found = consumer.offsetsForTimes(times);
                for (TopicPartition one : partitions) {
                    if (found.get(one) == null) {
                        consumer.seekToEnd(Collections.singleton(one));
                    } else {
                        consumer.seek(one, found.get(one).offset());
                    }
                }
            }
            int left = request.get("count").asInt();
            while (left > 0) {
                for (ConsumerRecord<byte[], byte[]> record : poll(consumer)) {
                    if (left-- > 0) {
                        print(stored(record));
                    }
                }
            }
        }
    }

    private static KafkaConsumer<byte[], byte[]> consumer(Properties settings) {
        settings.put("enable.auto.commit", "false");
        settings.put("auto.offset.reset", "earliest");
        return new KafkaConsumer<>(settings, new ByteArrayDeserializer(), new ByteArrayDeserializer());
    }

    /** By the method that came with 2.0, where there is one: consumers of KIP-848 have no other. */
    @SuppressWarnings("unchecked")
    private static ConsumerRecords<byte[], byte[]> poll(KafkaConsumer<byte[], byte[]> consumer)
            throws Exception {
        if (POLL == null) {
            return consumer.poll(POLL_MS);
        }
        return (ConsumerRecords<byte[], byte[]>) POLL.invoke(consumer, Duration.ofMillis(POLL_MS));
    }

    private static void join(String bootstrap, JsonNode request) throws Exception {
        Thread polling = Thread.currentThread();
        Runtime.getRuntime().addShutdownHook(new Thread(() -> {
            stopping = true;
            try {
                polling.join();
            } catch (InterruptedException ended) {
                Thread.currentThread().interrupt();
            }
        }));
        AtomicInteger asked = new AtomicInteger();
        Thread reading = new Thread(() -> {
            BufferedReader input = input();
            try {
                while (input.readLine() != null) {
                    asked.incrementAndGet();
                }
            } catch (IOException closed) {
                stopping = true;
            }
        });
        reading.setDaemon(true);
        reading.start();
        Properties settings = settings(bootstrap, "group.id", request.get("group").asText());
        if (request.path("protocol").asText().equals("consumer")) {
            settings.put("group.protocol", "consumer");
        } else {
            settings.put("session.timeout.ms", "10000");
            settings.put("heartbeat.interval.ms", "500");
        }
        try (KafkaConsumer<byte[], byte[]> consumer = consumer(settings)) {
            consumer.subscribe(Collections.singleton(request.get("topic").asText()));
            Set<TopicPartition> told = null;
            int committed = 0;
            while (!stopping) {
                for (ConsumerRecord<byte[], byte[]> record : poll(consumer)) {
                    print(stored(record).put("event", "record"));
                }
                Set<TopicPartition> assigned = consumer.assignment();
                if (!assigned.equals(told)) {
                    told = assigned;
                    ObjectNode event = JSON.createObjectNode().put("event", "assigned");
                    ArrayNode partitions = event.putArray("partitions");
                    assigned.forEach(one -> partitions.add(one.partition()));
                    print(event);
                }
                if (committed < asked.get()) {
                    committed += 1;
                    consumer.commitSync();
                    print(JSON.createObjectNode().put("event", "committed"));
                }
            }
        }
    }

    private static ObjectNode stored(ConsumerRecord<byte[], byte[]> record) {
        ObjectNode made = JSON.createObjectNode()
                .put("partition", record.partition())
                .put("offset", Long.toString(record.offset()))
                .put("timestamp", Long.toString(record.timestamp()))
                .put("key", text(record.key()))
                .put("value", text(record.value()));
        ArrayNode headers = made.putArray("headers");
        for (Header header : record.headers()) {
            headers.addArray().add(header.key()).add(text(header.value()));
        }
        return made;
    }

    private static BufferedReader input() {
        return new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
    }

    private static void print(JsonNode line) throws IOException {
        OUT.println(JSON.writeValueAsString(line));
    }

    private static byte[] bytes(JsonNode text) {
        return text.isNull() ? null : Base64.getDecoder().decode(text.asText());
    }

    private static String text(byte[] bytes) {
        return bytes == null ? null : Base64.getEncoder().encodeToString(bytes);
    }
}

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collection;
import java.util.Collections;
import java.util.List;
import java.util.Properties;
import java.util.concurrent.Future;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/**
 * Produces and consumes with an old Java client, for tests. Fields of a line are separated by tabs;
 * the text "\N" is null.
 *
 * produce BOOTSTRAP TOPIC CODEC ACKS: sends the lines "key value" of its input, then prints a line
 * "partition offset" for each.
 * consume BOOTSTRAP TOPIC GROUP: joins the group, prints "assigned PARTITION..." and "partition offset
 * timestamp key value" for each record, and commits after each poll; leaves the group on SIGTERM.
 * offsets BOOTSTRAP TOPIC PARTITION: prints the first and the next offset.
 */
public final class OldClient {
    private static final String NULL = "\\N";
    private static final PrintStream OUT =
            new PrintStream(System.out, true, StandardCharsets.UTF_8);

    private static volatile boolean stopping;

    public static void main(String[] arguments) throws Exception {
        switch (arguments[0]) {
            case "produce":
                produce(arguments[1], arguments[2], arguments[3], arguments[4]);
                break;
            case "consume":
                consume(arguments[1], arguments[2], arguments[3]);
                break;
            case "offsets":
                offsets(arguments[1], new TopicPartition(arguments[2], Integer.parseInt(arguments[3])));
                break;
            default:
                throw new IllegalArgumentException(arguments[0]);
        }
    }

    private static void produce(String bootstrap, String topic, String codec, String acks)
            throws Exception {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", bootstrap);
        settings.put("compression.type", codec);
        settings.put("acks", acks);
        settings.put("linger.ms", "50");
        settings.put("key.serializer", StringSerializer.class.getName());
        settings.put("value.serializer", StringSerializer.class.getName());
        List<Future<RecordMetadata>> sent = new ArrayList<>();
        try (KafkaProducer<String, String> producer = new KafkaProducer<>(settings)) {
            BufferedReader input =
                    new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
            for (String line = input.readLine(); line != null; line = input.readLine()) {
                String[] fields = line.split("\t", -1);
                sent.add(producer.send(
                        new ProducerRecord<>(topic, valueOf(fields[0]), valueOf(fields[1]))));
            }
            for (Future<RecordMetadata> one : sent) {
                OUT.println(one.get().partition() + "\t" + one.get().offset());
            }
        }
    }

    private static void consume(String bootstrap, String topic, String group) throws Exception {
        Thread polling = Thread.currentThread();
        Runtime.getRuntime().addShutdownHook(new Thread(() -> {
            stopping = true;
            try {
                polling.join();
            } catch (InterruptedException error) {
                throw new IllegalStateException(error);
            }
        }));
        try (KafkaConsumer<String, String> consumer = consumer(bootstrap, group, "earliest")) {
            consumer.subscribe(Arrays.asList(topic), new ConsumerRebalanceListener() {
                @Override
                public void onPartitionsRevoked(Collection<TopicPartition> partitions) {
                }

                @Override
                public void onPartitionsAssigned(Collection<TopicPartition> partitions) {
                    StringBuilder line = new StringBuilder("assigned");
                    for (TopicPartition one : partitions) {
                        line.append('\t').append(one.partition());
                    }
                    OUT.println(line);
                }
            });
            while (!stopping) {
                int count = 0;
                for (ConsumerRecord<String, String> record : consumer.poll(200)) {
                    OUT.println(record.partition() + "\t" + record.offset() + "\t"
                            + timestampOf(record) + "\t" + text(record.key()) + "\t"
                            + text(record.value()));
                    count++;
                }
                if (count > 0) {
                    consumer.commitSync();
                }
            }
        }
    }

    private static void offsets(String bootstrap, TopicPartition partition) {
        for (String reset : new String[] {"earliest", "latest"}) {
            try (KafkaConsumer<String, String> consumer = consumer(bootstrap, "none", reset)) {
                consumer.assign(Collections.singletonList(partition));
                OUT.println(consumer.position(partition));
            }
        }
    }

    private static KafkaConsumer<String, String> consumer(
            String bootstrap, String group, String reset) {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", bootstrap);
        settings.put("group.id", group);
        settings.put("enable.auto.commit", "false");
        settings.put("auto.offset.reset", reset);
        settings.put("session.timeout.ms", "10000");
        settings.put("key.deserializer", StringDeserializer.class.getName());
        settings.put("value.deserializer", StringDeserializer.class.getName());
        return new KafkaConsumer<>(settings);
    }

    /** Clients before 0.10 have no timestamps. */
    private static long timestampOf(ConsumerRecord<String, String> record) throws Exception {
        try {
            return (Long) ConsumerRecord.class.getMethod("timestamp").invoke(record);
        } catch (NoSuchMethodException error) {
            return -1;
        }
    }

    private static String valueOf(String text) {
        return text.equals(NULL) ? null : text;
    }

    private static String text(String value) {
        return value == null ? NULL : value;
    }
}

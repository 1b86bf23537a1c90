import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.Map;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerConfig;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.errors.TimeoutException;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * A transactional producer that does what it reads, for tests: Teller BOOTSTRAP REQUEST.
 *
 * REQUEST is JSON: topic, transactional_id, transaction_timeout_ms, call_ms, patience_ms. Each line of
 * the input is one transaction: {"abort": false, "messages": [{"partition": 0, "value": BASE64}]}, and
 * is answered by a line {"outcome": "committed"}, "aborted" or "unknown", with "error" if the producer
 * had to be replaced by another one of the same transactional id. With "hold" the records are
 * written, and the answer is "open": the next line, whatever it says, goes on with a commit.
 */
public final class Teller {
    private final ObjectMapper mapper = new ObjectMapper();
    private final String bootstrap;
    private final JsonNode request;
    private KafkaProducer<byte[], byte[]> producer;

    private Teller(String bootstrap, String request) throws Exception {
        this.bootstrap = bootstrap;
        this.request = mapper.readTree(request);
    }

    public static void main(String[] arguments) throws Exception {
        new Teller(arguments[0], arguments[1]).run();
    }

    private void run() throws Exception {
        BufferedReader lines =
                new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            System.out.println(mapper.writeValueAsString(transact(mapper.readTree(line), lines)));
        }
    }

    private ObjectNode transact(JsonNode wanted, BufferedReader lines) throws Exception {
        ObjectNode told = mapper.createObjectNode();
        boolean askedToCommit = false;
        ready();
        try {
            producer.beginTransaction();
            for (JsonNode message : wanted.get("messages")) {
                producer.send(new ProducerRecord<>(
                        request.get("topic").textValue(),
                        message.get("partition").intValue(),
                        null,
                        message.get("value").binaryValue()));
            }
            if (wanted.path("hold").booleanValue()) {
                producer.flush();
                System.out.println("{\"outcome\": \"open\"}");
                lines.readLine();
            }
            if (wanted.get("abort").booleanValue()) {
                producer.flush(); // Most aborted records shall be in the log.
                persist(producer::abortTransaction);
                return told.put("outcome", "aborted");
            }
            askedToCommit = true;
            persist(producer::commitTransaction);
            return told.put("outcome", "committed");
        } catch (KafkaException error) {
            if (aborts()) {
                return told.put("outcome", "aborted");
            }
            producer.close(Duration.ZERO);
            producer = null;
            // The next one ends what is open; before that nothing is certain.
            ready();
            told.put("error", error.toString());
            return told.put("outcome", askedToCommit ? "unknown" : "aborted");
        }
    }

    /** Whether the transaction could be aborted, which it can only if no commit was asked for. */
    private boolean aborts() {
        try {
            persist(producer::abortTransaction);
            return true;
        } catch (KafkaException | IllegalStateException error) {
            return false;
        }
    }

    private void ready() {
        if (producer != null) {
            return;
        }
        String transactionalId = request.get("transactional_id").textValue();
        producer = new KafkaProducer<>(
                Map.of(
                        ProducerConfig.BOOTSTRAP_SERVERS_CONFIG, bootstrap,
                        ProducerConfig.TRANSACTIONAL_ID_CONFIG, transactionalId,
                        ProducerConfig.TRANSACTION_TIMEOUT_CONFIG, number("transaction_timeout_ms"),
                        ProducerConfig.MAX_BLOCK_MS_CONFIG, number("call_ms"),
                        ProducerConfig.DELIVERY_TIMEOUT_MS_CONFIG, number("patience_ms"),
                        ProducerConfig.RECONNECT_BACKOFF_MAX_MS_CONFIG, 500,
                        ProducerConfig.LINGER_MS_CONFIG, 1),
                new ByteArraySerializer(),
                new ByteArraySerializer());
        persist(producer::initTransactions);
    }

    private int number(String name) {
        return request.get(name).intValue();
    }

    /** Repeats a call of the transactional API, which is safe after a timeout. */
    private void persist(Runnable call) {
        long deadline = System.nanoTime() + number("patience_ms") * 1_000_000L;
        while (true) {
            try {
                call.run();
                return;
            } catch (TimeoutException error) {
                if (System.nanoTime() > deadline) {
                    throw error;
                }
            }
        }
    }
}

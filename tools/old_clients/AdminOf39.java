import com.fasterxml.jackson.databind.ObjectMapper;
import java.util.Collection;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.stream.Collectors;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.Config;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.NewPartitions;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.clients.admin.RecordsToDelete;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.KafkaFuture;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.quota.ClientQuotaFilter;
import org.apache.kafka.common.serialization.StringSerializer;

/**
 * AdminOf39 BOOTSTRAP TOPIC GROUP TRANSACTIONAL_ID: what operators do with the admin client of Kafka
 * 3.9, on a topic that is not there before and is gone after. Prints what it was told, as one JSON object.
 */
public final class AdminOf39 {
    private static final int TIMEOUT_S = 30;
    private static final int WAIT_MS = 100;
    private static final int RECORDS = 10;

    private static final Map<String, Object> TOLD = new LinkedHashMap<>();

    public static void main(String[] arguments) throws Exception {
        String topic = arguments[1];
        Properties settings = new Properties();
        settings.put("bootstrap.servers", arguments[0]);
        try (Admin admin = Admin.create(settings)) {
            cluster(admin);
            topics(admin, topic);
            produce(arguments[0], topic, arguments[3]);
            records(admin, topic);
            transactions(admin, topic, arguments[3]);
            groups(admin, topic, arguments[2]);
            admin.deleteTopics(Collections.singleton(topic)).all().get(TIMEOUT_S, TimeUnit.SECONDS);
            TOLD.put("left", of(admin.listTopics().names()).contains(topic));
        }
        System.out.println(new ObjectMapper().writeValueAsString(TOLD));
    }

    private static <T> T of(KafkaFuture<T> future) throws Exception {
        return future.get(TIMEOUT_S, TimeUnit.SECONDS);
    }

    /** The name of the error's class, or "none". */
    private static String errorOf(KafkaFuture<?> future) throws Exception {
        try {
            of(future);
            return "none";
        } catch (ExecutionException failed) {
            return failed.getCause().getClass().getSimpleName();
        }
    }

    private static void cluster(Admin admin) throws Exception {
        int nodes = of(admin.describeCluster().nodes()).size();
        TOLD.put("controller", of(admin.describeCluster().controller()) != null);
        TOLD.put("nodes", nodes);
        TOLD.put("features", new TreeMap<>(of(admin.describeFeatures().featureMetadata())
                .finalizedFeatures()).keySet());
        TOLD.put("voters", of(admin.describeMetadataQuorum().quorumInfo()).voters().size() > 0);
        TOLD.put("quotas", of(admin.describeClientQuotas(ClientQuotaFilter.all()).entities()).size());
        TOLD.put("acls", errorOf(admin.describeAcls(
                org.apache.kafka.common.acl.AclBindingFilter.ANY).values()));
    }

    private static void topics(Admin admin, String topic) throws Exception {
        NewTopic wanted = new NewTopic(topic, 2, (short) 1);
        of(admin.createTopics(Collections.singleton(wanted)).all());
        TOLD.put("again", errorOf(admin.createTopics(Collections.singleton(wanted)).all()));
        of(admin.createPartitions(Collections.singletonMap(topic, NewPartitions.increaseTo(3))).all());
        ConfigResource resource = new ConfigResource(ConfigResource.Type.TOPIC, topic);
        Collection<AlterConfigOp> changes = Collections.singleton(new AlterConfigOp(
                new ConfigEntry("retention.ms", "3600000"), AlterConfigOp.OpType.SET));
        of(admin.incrementalAlterConfigs(Collections.singletonMap(resource, changes)).all());
        for (int tries = 0; tries < TIMEOUT_S * 1000 / WAIT_MS; tries++) {
            Config found = of(admin.describeConfigs(Collections.singleton(resource)).all()).get(resource);
            TOLD.put("retention", found.get("retention.ms").value());
            TOLD.put("source", found.get("retention.ms").source().name());
            // This client asks by DescribeTopicPartitions first.
            TOLD.put("partitions", of(admin.describeTopics(Collections.singleton(topic))
                    .allTopicNames()).get(topic).partitions().size());
            if (TOLD.get("partitions").equals(3) && TOLD.get("retention").equals("3600000")) {
                break;
            }
            Thread.sleep(WAIT_MS);
        }
    }

    private static void produce(String bootstrap, String topic, String id) throws Exception {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", bootstrap);
        settings.put("transactional.id", id);
        try (KafkaProducer<String, String> producer =
                new KafkaProducer<>(settings, new StringSerializer(), new StringSerializer())) {
            producer.initTransactions();
            producer.beginTransaction();
            for (int n = 0; n < RECORDS; n++) {
                producer.send(new ProducerRecord<>(topic, 0, "k", "v" + n));
            }
            producer.commitTransaction();
        }
    }

    private static void records(Admin admin, String topic) throws Exception {
        TopicPartition first = new TopicPartition(topic, 0);
        TOLD.put("low", of(admin.deleteRecords(Collections.singletonMap(first,
                RecordsToDelete.beforeOffset(4))).lowWatermarks().get(first)).lowWatermark());
        TOLD.put("earliest", of(admin.listOffsets(Collections.singletonMap(first,
                OffsetSpec.earliest())).partitionResult(first)).offset());
        TOLD.put("latest", of(admin.listOffsets(Collections.singletonMap(first,
                OffsetSpec.latest())).partitionResult(first)).offset());
        TOLD.put("newest", of(admin.listOffsets(Collections.singletonMap(first,
                OffsetSpec.maxTimestamp())).partitionResult(first)).offset() >= 4);
        Map<Integer, ?> directories = of(admin.describeLogDirs(of(admin.describeCluster().nodes())
                .stream().map(node -> node.id()).collect(Collectors.toList())).allDescriptions());
        TOLD.put("directories", directories.size());
    }

    private static void transactions(Admin admin, String topic, String id) throws Exception {
        TOLD.put("listed", of(admin.listTransactions().all()).stream()
                .filter(one -> one.transactionalId().equals(id)).count());
        TOLD.put("state", of(admin.describeTransactions(Collections.singleton(id)).all())
                .get(id).state().name());
        TopicPartition first = new TopicPartition(topic, 0);
        TOLD.put("producers", of(admin.describeProducers(Collections.singleton(first))
                .partitionResult(first)).activeProducers().size());
        of(admin.fenceProducers(Collections.singleton(id)).all());
    }

    private static void groups(Admin admin, String topic, String group) throws Exception {
        Map<TopicPartition, OffsetAndMetadata> offsets = Map.of(
                new TopicPartition(topic, 0), new OffsetAndMetadata(5),
                new TopicPartition(topic, 1), new OffsetAndMetadata(0));
        of(admin.alterConsumerGroupOffsets(group, offsets).all());
        Map<TopicPartition, OffsetAndMetadata> found =
                of(admin.listConsumerGroupOffsets(group).partitionsToOffsetAndMetadata());
        TOLD.put("offset", found.get(new TopicPartition(topic, 0)).offset());
        TOLD.put("groups", of(admin.listConsumerGroups().all()).stream()
                .filter(one -> one.groupId().equals(group)).count());
        TOLD.put("described", of(admin.describeConsumerGroups(List.of(group)).all())
                .get(group).state().name());
        of(admin.deleteConsumerGroupOffsets(
                group, Collections.singleton(new TopicPartition(topic, 1))).all());
        TOLD.put("kept", new TreeSet<>(of(admin.listConsumerGroupOffsets(group)
                .partitionsToOffsetAndMetadata()).keySet().stream()
                .map(TopicPartition::partition).collect(Collectors.toSet())));
        of(admin.deleteConsumerGroups(List.of(group)).all());
        TOLD.put("unknown", errorOf(admin.deleteConsumerGroups(List.of(group)).all()));
    }
}

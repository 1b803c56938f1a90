import com.google.gson.Gson;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.rocketmq.client.apis.ClientConfiguration;
import org.apache.rocketmq.client.apis.ClientServiceProvider;
import org.apache.rocketmq.client.apis.consumer.ConsumeResult;
import org.apache.rocketmq.client.apis.consumer.FilterExpression;
import org.apache.rocketmq.client.apis.consumer.PushConsumer;
import org.apache.rocketmq.client.apis.consumer.SimpleConsumer;
import org.apache.rocketmq.client.apis.message.Message;
import org.apache.rocketmq.client.apis.message.MessageBuilder;
import org.apache.rocketmq.client.apis.message.MessageView;
import org.apache.rocketmq.client.apis.producer.Producer;
import org.apache.rocketmq.client.apis.producer.TransactionChecker;

/**
 * Scenarios on the official Java client: what they share, and which there are.
 *
 * <pre>java -Dtls=false Driver SCENARIO SEND_TO RECEIVE_FROM TOPIC GROUP</pre>
 */
final class Driver {
    static final ClientServiceProvider PROVIDER = ClientServiceProvider.loadService();
    static final Duration INVISIBLE = Duration.ofSeconds(20);
    static String topic;
    static String group;
    private static String sendTo;
    private static String receiveFrom;

    interface Scenario {
        Map<String, Object> run() throws Exception;
    }

    interface Handler {
        ConsumeResult handle(Map<String, Object> message) throws InterruptedException;
    }

    private static final Map<String, Scenario> SCENARIOS = new LinkedHashMap<>();

    static {
        SCENARIOS.put("round_trip", Receiving::roundTrip);
        SCENARIOS.put("away", Receiving::away);
        SCENARIOS.put("wakes", Receiving::wakes);
        SCENARIOS.put("redelivery", Receiving::redelivery);
        SCENARIOS.put("change_invisible", Receiving::changeInvisible);
        SCENARIOS.put("tag_filter", Receiving::tagFilter);
        SCENARIOS.put("sql_filter", Receiving::sqlFilter);
        SCENARIOS.put("fifo", Receiving::fifo);
        SCENARIOS.put("delay", Sending::delay);
        SCENARIOS.put("transaction", Sending::transaction);
        SCENARIOS.put("push", Pushed::push);
        SCENARIOS.put("slow_push", Pushed::slowPush);
        SCENARIOS.put("fifo_push", Pushed::fifoPush);
        SCENARIOS.put("dead_letters", () -> Pushed.poisoned(false));
        SCENARIOS.put("fifo_dead_letters", () -> Pushed.poisoned(true));
    }

    private Driver() {}

    public static void main(String[] args) throws Exception {
        sendTo = args[1];
        receiveFrom = args[2];
        topic = args[3];
        group = args[4];
        System.out.println(new Gson().toJson(SCENARIOS.get(args[0]).run()));
        System.exit(0);
    }

    private static ClientConfiguration at(String endpoints) {
        return ClientConfiguration.newBuilder()
                .setEndpoints(endpoints)
                .enableSsl(Boolean.getBoolean("tls"))
                .setRequestTimeout(Duration.ofSeconds(10))
                .build();
    }

    static Producer producer() throws Exception {
        return PROVIDER.newProducerBuilder().setClientConfiguration(at(sendTo)).setTopics(topic).build();
    }

    static Producer producer(TransactionChecker checker) throws Exception {
        return PROVIDER.newProducerBuilder()
                .setClientConfiguration(at(sendTo))
                .setTopics(topic)
                .setTransactionChecker(checker)
                .build();
    }

    static SimpleConsumer consumer() throws Exception {
        return consumer(FilterExpression.SUB_ALL, 2);
    }

    static SimpleConsumer consumer(FilterExpression expression, int waitSeconds) throws Exception {
        return PROVIDER.newSimpleConsumerBuilder()
                .setClientConfiguration(at(receiveFrom))
                .setConsumerGroup(group)
                .setSubscriptionExpressions(Map.of(topic, expression))
                .setAwaitDuration(Duration.ofSeconds(waitSeconds))
                .build();
    }

    static PushConsumer pushConsumer(Handler handler) throws Exception {
        return PROVIDER.newPushConsumerBuilder()
                .setClientConfiguration(at(receiveFrom))
                .setConsumerGroup(group)
                .setSubscriptionExpressions(Map.of(topic, FilterExpression.SUB_ALL))
                .setMessageListener(message -> {
                    try {
                        return handler.handle(fields(message));
                    } catch (InterruptedException ended) {
                        return ConsumeResult.FAILURE;
                    }
                })
                .build();
    }

    static MessageBuilder message(String body) {
        return PROVIDER.newMessageBuilder().setTopic(topic).setBody(body.getBytes(StandardCharsets.UTF_8));
    }

    static Message inOrder(String body, String name) {
        return message(body).setMessageGroup(name).build();
    }

    /** Until `count` messages came or the time is over. */
    static List<MessageView> receive(SimpleConsumer receiver, int count, int seconds, Duration invisible)
            throws Exception {
        List<MessageView> found = new ArrayList<>();
        long end = System.nanoTime() + seconds * 1_000_000_000L;
        while (found.size() < count && System.nanoTime() < end) {
            found.addAll(receiver.receive(32, invisible));
        }
        return found;
    }

    static List<MessageView> receive(SimpleConsumer receiver, int count) throws Exception {
        return receive(receiver, count, 15, INVISIBLE);
    }

    static void ack(SimpleConsumer receiver, List<MessageView> messages) throws Exception {
        for (MessageView message : messages) {
            receiver.ack(message);
        }
    }

    static String body(MessageView message) {
        return StandardCharsets.UTF_8.decode(message.getBody()).toString();
    }

    static Map<String, Object> fields(MessageView message) {
        Map<String, Object> found = new LinkedHashMap<>();
        found.put("id", message.getMessageId().toString());
        found.put("body", body(message));
        found.put("attempt", message.getDeliveryAttempt());
        found.put("tag", message.getTag().orElse(null));
        found.put("keys", message.getKeys().stream().sorted().toList());
        found.put("properties", message.getProperties());
        return found;
    }

    static List<Map<String, Object>> views(List<MessageView> messages) {
        return messages.stream().map(Driver::fields).toList();
    }
}

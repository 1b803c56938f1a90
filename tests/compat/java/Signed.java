import com.google.gson.Gson;
import com.google.gson.GsonBuilder;
import com.google.gson.JsonObject;
import com.google.gson.JsonParser;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CopyOnWriteArrayList;
import org.apache.rocketmq.client.apis.ClientConfiguration;
import org.apache.rocketmq.client.apis.ClientConfigurationBuilder;
import org.apache.rocketmq.client.apis.StaticSessionCredentialsProvider;
import org.apache.rocketmq.client.apis.consumer.ConsumeResult;
import org.apache.rocketmq.client.apis.consumer.FilterExpression;
import org.apache.rocketmq.client.apis.consumer.SimpleConsumer;
import org.apache.rocketmq.client.apis.message.Message;
import org.apache.rocketmq.client.apis.message.MessageView;
import org.apache.rocketmq.client.apis.producer.Producer;
import org.apache.rocketmq.client.apis.producer.ProducerBuilder;
import org.apache.rocketmq.client.apis.producer.Transaction;
import org.apache.rocketmq.client.apis.producer.TransactionResolution;

/**
 * One command after the other: a JSON line on stdin is a command, a JSON line on stdout what it led to
 * (tests/compat/session.py).
 *
 * <pre>java Signed</pre>
 */
final class Signed {
    private static final Duration WAIT = Duration.ofSeconds(2);
    private static final Duration SLOW = Duration.ofSeconds(2);
    private static final Duration INVISIBLE = Duration.ofSeconds(30);
    private static final Gson GSON = new GsonBuilder().serializeNulls().create();

    private final Map<String, AutoCloseable> clients = new HashMap<>();
    private final Map<String, List<String>> seen = new HashMap<>();
    private final Map<String, List<MessageView>> held = new HashMap<>();
    private final Map<String, String> handles = new HashMap<>();

    private Signed() {}

    public static void main(String[] args) throws Exception {
        Signed session = new Signed();
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            Map<String, Object> answer = new HashMap<>();
            try {
                answer.put("value", session.run(JsonParser.parseString(line).getAsJsonObject()));
            } catch (Exception refused) {
                answer.put("error", text(refused));
            }
            System.out.println(GSON.toJson(answer));
        }
        System.exit(0);
    }

    private static String text(Throwable error) {
        String own = error.getClass().getSimpleName() + ": " + error.getMessage();
        return error.getCause() == null ? own : own + " <- " + text(error.getCause());
    }

    private static String of(JsonObject asked, String field) {
        return asked.has(field) && !asked.get(field).isJsonNull() ? asked.get(field).getAsString() : "";
    }

    private Object run(JsonObject asked) throws Exception {
        String name = of(asked, "name");
        switch (of(asked, "do")) {
            case "start" -> start(asked, name, of(asked, "topic"));
            case "send" -> send(asked, name);
            case "recall" -> producer(name).recallMessage(of(asked, "topic"), handles.get(name));
            case "transact" -> transact(asked, name);
            case "receive" -> {
                return receive(name);
            }
            case "change" -> {
                for (MessageView one : held.get(name)) {
                    consumer(name).changeInvisibleDuration(one, INVISIBLE);
                }
            }
            case "ack" -> Driver.ack(consumer(name), held.get(name));
            case "taken" -> {
                return seen.get(name);
            }
            default -> clients.remove(name).close();
        }
        return null;
    }

    private List<String> receive(String name) throws Exception {
        List<MessageView> found = consumer(name).receive(32, INVISIBLE);
        if (!found.isEmpty()) {
            held.put(name, found);
        }
        return found.stream().map(Driver::body).toList();
    }

    private Producer producer(String name) {
        return (Producer) clients.get(name);
    }

    private SimpleConsumer consumer(String name) {
        return (SimpleConsumer) clients.get(name);
    }

    private static ClientConfiguration at(JsonObject asked) {
        ClientConfigurationBuilder at = ClientConfiguration.newBuilder()
                .setEndpoints(of(asked, "endpoint"))
                .enableSsl(false)
                .setRequestTimeout(Duration.ofSeconds(10));
        if (!of(asked, "user").isEmpty()) {
            at.setCredentialProvider(new StaticSessionCredentialsProvider(of(asked, "user"), of(asked, "secret")));
        }
        return at.build();
    }

    private void start(JsonObject asked, String name, String topic) throws Exception {
        String kind = of(asked, "kind");
        Map<String, FilterExpression> topics = Map.of(topic, FilterExpression.SUB_ALL);
        if (kind.equals("simple")) {
            clients.put(name, Driver.PROVIDER.newSimpleConsumerBuilder()
                    .setClientConfiguration(at(asked))
                    .setConsumerGroup(of(asked, "group"))
                    .setSubscriptionExpressions(topics)
                    .setAwaitDuration(WAIT)
                    .build());
        } else if (kind.equals("push")) {
            List<String> bodies = new CopyOnWriteArrayList<>();
            seen.put(name, bodies);
            clients.put(name, Driver.PROVIDER.newPushConsumerBuilder()
                    .setClientConfiguration(at(asked))
                    .setConsumerGroup(of(asked, "group"))
                    .setSubscriptionExpressions(topics)
                    .setMessageListener(message -> {
                        bodies.add(Driver.body(message));
                        return handled(Driver.body(message));
                    })
                    .build());
        } else {
            ProducerBuilder builder = Driver.PROVIDER.newProducerBuilder()
                    .setClientConfiguration(at(asked))
                    .setTopics(topic);
            if (kind.equals("transactional")) {
                builder.setTransactionChecker(message -> TransactionResolution.COMMIT);
            }
            clients.put(name, builder.build());
        }
    }

    private static ConsumeResult handled(String body) {
        try {
            if (body.equals("slow")) {
                Thread.sleep(SLOW.toMillis());
            }
        } catch (InterruptedException ended) {
            return ConsumeResult.FAILURE;
        }
        return ConsumeResult.SUCCESS;
    }

    private static Message message(JsonObject asked) {
        var made = Driver.PROVIDER.newMessageBuilder()
                .setTopic(of(asked, "topic"))
                .setBody(of(asked, "body").getBytes(StandardCharsets.UTF_8));
        if (!of(asked, "delay_s").isEmpty()) {
            long delay = Long.parseLong(of(asked, "delay_s")) * 1_000;
            made.setDeliveryTimestamp(System.currentTimeMillis() + delay);
        }
        return made.build();
    }

    private void send(JsonObject asked, String name) throws Exception {
        handles.put(name, producer(name).send(message(asked)).getRecallHandle());
    }

    private void transact(JsonObject asked, String name) throws Exception {
        Transaction begun = producer(name).beginTransaction();
        producer(name).send(message(asked), begun);
        begun.commit();
    }
}

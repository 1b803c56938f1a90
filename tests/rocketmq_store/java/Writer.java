import com.alibaba.fastjson2.JSON;
import com.alibaba.fastjson2.JSONObject;
import java.io.PrintWriter;
import java.io.RandomAccessFile;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import org.apache.rocketmq.client.exception.MQClientException;
import org.apache.rocketmq.client.producer.LocalTransactionState;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.client.producer.SendStatus;
import org.apache.rocketmq.client.producer.TransactionListener;
import org.apache.rocketmq.client.producer.TransactionMQProducer;
import org.apache.rocketmq.common.TopicConfig;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;
import org.apache.rocketmq.remoting.protocol.subscription.SubscriptionGroupConfig;

/** Topics, groups and messages, made with RocketMQ's own producers. */
final class Writer {
    private static final int THREADS = 6;
    private static final int ROUTE_TRIES = 45;
    private static final int TOLD_EVERY = 25_000;
    private static long written;

    private Writer() {}

    /** Lines {topic, queues, type} and {group, fifo}. */
    static void setUp(Judge judge, List<JSONObject> wanted) throws Exception {
        for (JSONObject one : wanted) {
            if (one.containsKey("topic")) {
                int queues = one.getIntValue("queues");
                TopicConfig topic = new TopicConfig(one.getString("topic"), queues, queues, 6);
                topic.setAttributes(Map.of("+message.type", one.getString("type")));
                judge.admin.createAndUpdateTopicConfig(judge.broker, topic);
            } else {
                SubscriptionGroupConfig group = new SubscriptionGroupConfig();
                group.setGroupName(one.getString("group"));
                group.setConsumeMessageOrderly(one.getBooleanValue("fifo"));
                judge.admin.createAndUpdateSubscriptionGroupConfig(judge.broker, group);
            }
        }
    }

    /** Decides at once, by what the message says; "pending" is never decided. */
    private static final class Fate implements TransactionListener {
        @Override
        public LocalTransactionState executeLocalTransaction(Message message, Object fate) {
            return switch ((String) fate) {
                case "commit" -> LocalTransactionState.COMMIT_MESSAGE;
                case "rollback" -> LocalTransactionState.ROLLBACK_MESSAGE;
                default -> LocalTransactionState.UNKNOW;
            };
        }

        @Override
        public LocalTransactionState checkLocalTransaction(MessageExt message) {
            return LocalTransactionState.UNKNOW;
        }
    }

    static void write(Judge judge, List<JSONObject> plan, Path poolPath, Path out) throws Exception {
        byte[] pool = Files.readAllBytes(poolPath);
        TransactionMQProducer plain = producer(judge, "judge-writer", Integer.MAX_VALUE);
        TransactionMQProducer zipping = producer(judge, "judge-zipping-writer", 1);
        var threads = Executors.newFixedThreadPool(THREADS);
        List<Future<Void>> writing = new ArrayList<>();
        try (PrintWriter lines = new PrintWriter(Files.newBufferedWriter(out, StandardCharsets.UTF_8))) {
            for (int i = 0; i < THREADS; i++) {
                int first = i;
                writing.add(threads.submit(() -> {
                    for (int n = first; n < plan.size(); n += THREADS) {
                        JSONObject item = plan.get(n);
                        send(item.getBooleanValue("zip") ? zipping : plain, item, pool, lines);
                    }
                    return null;
                }));
            }
            for (Future<Void> one : writing) {
                one.get();
            }
        }
        threads.shutdown();
    }

    private static TransactionMQProducer producer(Judge judge, String group, int zipFromBytes) throws Exception {
        TransactionMQProducer producer = new TransactionMQProducer(group);
        producer.setNamesrvAddr(judge.nameserver);
        producer.setInstanceName(group);
        producer.setSendMsgTimeout((int) Judge.TIMEOUT_MS);
        producer.setMqClientApiTimeout((int) Judge.TIMEOUT_MS);
        producer.setCompressMsgBodyOverHowmuch(zipFromBytes);
        producer.setTransactionListener(new Fate());
        producer.start();
        return producer;
    }

    private static void send(TransactionMQProducer producer, JSONObject item, byte[] pool, PrintWriter out)
            throws Exception {
        int at = item.getIntValue("at");
        byte[] body = Arrays.copyOfRange(pool, at, at + item.getIntValue("size"));
        Message message = new Message(item.getString("topic"), body);
        if (item.getString("tag") != null) {
            message.setTags(item.getString("tag"));
        }
        message.setKeys(item.getList("keys", String.class));
        item.getJSONObject("properties").forEach((name, value) -> message.putUserProperty(name, (String) value));
        if (item.containsKey("level")) {
            message.setDelayTimeLevel(item.getIntValue("level"));
        }
        if (item.containsKey("delayMs")) {
            message.setDelayTimeMs(item.getLongValue("delayMs"));
        }
        SendResult result = sentOnceKnown(producer, message, item);
        if (result.getSendStatus() != SendStatus.SEND_OK) {
            throw new IllegalStateException(item + ": " + result);
        }
        if (item.getBooleanValue("recall")) {
            producer.recallMessage(message.getTopic(), result.getRecallHandle());
        }
        Map<String, Object> line = new LinkedHashMap<>();
        line.put("number", item.getIntValue("number"));
        line.put("id", result.getMsgId());
        synchronized (out) {
            out.println(JSON.toJSONString(line));
            if (++written % TOLD_EVERY == 0) {
                System.out.printf("          … %,d messages sent%n", written);
            }
        }
    }

    /** A topic that the broker has just made is not known to the nameserver for some seconds. */
    private static SendResult sentOnceKnown(TransactionMQProducer producer, Message message, JSONObject item)
            throws Exception {
        for (int tries = 1; ; tries++) {
            try {
                return sent(producer, message, item);
            } catch (MQClientException failed) {
                boolean unknown = String.valueOf(failed.getMessage()).toLowerCase().contains("route");
                if (!unknown || tries == ROUTE_TRIES) {
                    throw failed;
                }
                Thread.sleep(1_000);
            }
        }
    }

    private static SendResult sent(TransactionMQProducer producer, Message message, JSONObject item) throws Exception {
        if (item.containsKey("fate")) {
            return producer.sendMessageInTransaction(message, item.getString("fate"));
        }
        if (item.containsKey("group")) {
            message.putUserProperty("__SHARDINGKEY", item.getString("group"));
            return producer.send(
                    message,
                    (queues, m, group) -> queues.get(Math.floorMod(group.hashCode(), queues.size())),
                    item.getString("group"));
        }
        return producer.send(message);
    }
}

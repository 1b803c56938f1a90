import com.alibaba.fastjson2.JSON;
import com.alibaba.fastjson2.JSONObject;
import java.io.PrintWriter;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.LocalTransactionState;
import org.apache.rocketmq.client.producer.TransactionListener;
import org.apache.rocketmq.client.producer.TransactionMQProducer;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.sysflag.MessageSysFlag;
import org.apache.rocketmq.remoting.protocol.header.EndTransactionRequestHeader;

/** Ends transactions that others began, by itself or when the broker asks, and recalls their messages. */
final class Settler {
    private static final int HEARTBEAT_MS = 1_000;
    private static final int ROUTE_TRIES = 45;
    private static final String BROKER = "broker-a";

    private Settler() {}

    /** Lines {group, id, log, offset, commit}: of half messages, as their sender would end them. */
    static void end(Judge judge, List<JSONObject> halves) throws Exception {
        for (JSONObject half : halves) {
            EndTransactionRequestHeader header = new EndTransactionRequestHeader();
            header.setTopic(half.getString("topic"));
            header.setProducerGroup(half.getString("group"));
            header.setCommitLogOffset(half.getLong("log"));
            header.setTranStateTableOffset(half.getLong("offset"));
            header.setMsgId(half.getString("id"));
            header.setTransactionId(half.getString("id"));
            header.setFromTransactionCheck(false);
            header.setCommitOrRollback(
                    half.getBooleanValue("commit")
                            ? MessageSysFlag.TRANSACTION_COMMIT_TYPE
                            : MessageSysFlag.TRANSACTION_ROLLBACK_TYPE);
            judge.api().endTransactionOneway(judge.broker, header, "judge", Judge.TIMEOUT_MS);
        }
    }

    /** Lines {topic, handle}: of delayed messages, whoever gave the handle. */
    static void recall(Judge judge, List<JSONObject> wanted) throws Exception {
        DefaultMQProducer producer = new DefaultMQProducer("judge-recaller");
        producer.setNamesrvAddr(judge.nameserver);
        producer.setMqClientApiTimeout((int) Judge.TIMEOUT_MS);
        producer.start();
        for (JSONObject one : wanted) {
            producer.recallMessage(one.getString("topic"), one.getString("handle"));
        }
        producer.shutdown();
    }

    /** Stay connected as a producer of `group` for so long, and answer checks by what messages say. */
    static void answer(Judge judge, String group, String topic, int turn, long seconds, Path out) throws Exception {
        try (PrintWriter lines = new PrintWriter(Files.newBufferedWriter(out, StandardCharsets.UTF_8))) {
            TransactionMQProducer producer = new TransactionMQProducer(group);
            producer.setNamesrvAddr(judge.nameserver);
            producer.setInstanceName("judge-settler");
            producer.setMqClientApiTimeout((int) Judge.TIMEOUT_MS);
            producer.setHeartbeatBrokerInterval(HEARTBEAT_MS);
            producer.setTransactionListener(new ByProperties(turn, lines));
            producer.start();
            connect(producer, topic);
            Thread.sleep(seconds * 1_000);
            producer.shutdown();
        }
    }

    /** The producer tells brokers of itself that it knows, and it knows those of topics it has looked up. */
    @SuppressWarnings("deprecation") // nothing else leads to its client
    private static void connect(TransactionMQProducer producer, String topic) throws Exception {
        var client = producer.getDefaultMQProducerImpl().getMqClientFactory();
        for (int tries = 1; client.findBrokerAddressInPublish(BROKER) == null; tries++) {
            if (tries == ROUTE_TRIES) {
                throw new IllegalStateException("nobody knows where " + topic + " is");
            }
            client.updateTopicRouteInfoFromNameServer(topic);
            Thread.sleep(1_000);
        }
        client.sendHeartbeatToAllBrokerWithLock();
    }

    /** Property `turn`: until when it is not known; `fate`: commit or rollback. */
    private record ByProperties(int turn, PrintWriter lines) implements TransactionListener {
        @Override
        public LocalTransactionState executeLocalTransaction(Message message, Object nothing) {
            throw new IllegalStateException("it sends nothing");
        }

        @Override
        public LocalTransactionState checkLocalTransaction(MessageExt message) {
            synchronized (lines) {
                lines.println(JSON.toJSONString(Map.of("number", message.getProperty("number"))));
            }
            if (Integer.parseInt(message.getProperty("turn")) > turn) {
                return LocalTransactionState.UNKNOW;
            }
            return message.getProperty("fate").equals("commit")
                    ? LocalTransactionState.COMMIT_MESSAGE
                    : LocalTransactionState.ROLLBACK_MESSAGE;
        }
    }
}

import com.alibaba.fastjson2.JSON;
import java.io.PrintWriter;
import java.net.InetSocketAddress;
import java.net.SocketAddress;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.MessageDigest;
import java.util.ArrayList;
import java.util.HexFormat;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import org.apache.rocketmq.client.consumer.DefaultMQPullConsumer;
import org.apache.rocketmq.client.consumer.PullResult;
import org.apache.rocketmq.client.consumer.PullStatus;
import org.apache.rocketmq.client.exception.MQClientException;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;
import org.apache.rocketmq.remoting.protocol.admin.TopicOffset;

/** Reads every queue of every topic from its first message to its last. */
final class Reader {
    private static final int THREADS = 4;
    private static final int PULL = 32;
    private static final int ROUTE_TRIES = 45;
    private static final int TOLD_EVERY = 25_000;
    private static long written;

    private Reader() {}

    @SuppressWarnings("deprecation") // it is the one that reads a queue from a place to a place
    static void read(Judge judge, Path out) throws Exception {
        DefaultMQPullConsumer consumer = new DefaultMQPullConsumer("judge-reader");
        consumer.setNamesrvAddr(judge.nameserver);
        consumer.setConsumerPullTimeoutMillis(Judge.TIMEOUT_MS);
        consumer.setMqClientApiTimeout((int) Judge.TIMEOUT_MS);
        consumer.start();
        var threads = Executors.newFixedThreadPool(THREADS);
        List<Future<Void>> reading = new ArrayList<>();
        try (PrintWriter lines = new PrintWriter(Files.newBufferedWriter(out, StandardCharsets.UTF_8))) {
            for (var queue : State.queues(judge).entrySet()) {
                reading.add(threads.submit(() -> readQueue(consumer, queue.getKey(), queue.getValue(), lines)));
            }
            for (Future<Void> one : reading) {
                one.get();
            }
        }
        threads.shutdown();
    }

    @SuppressWarnings("deprecation")
    private static Void readQueue(
            DefaultMQPullConsumer consumer, MessageQueue queue, TopicOffset range, PrintWriter out)
            throws Exception {
        long at = range.getMinOffset();
        while (at < range.getMaxOffset()) {
            PullResult result = pull(consumer, queue, at);
            if (result.getPullStatus() != PullStatus.FOUND) {
                throw new IllegalStateException(queue + " at " + at + ": " + result);
            }
            for (MessageExt message : result.getMsgFoundList()) {
                String line = JSON.toJSONString(row(message));
                synchronized (out) {
                    out.println(line);
                    if (++written % TOLD_EVERY == 0) {
                        System.out.printf("          … %,d messages read%n", written);
                    }
                }
            }
            at = result.getNextBeginOffset();
        }
        return null;
    }

    /** A topic that the broker has just made is not known to the nameserver for some seconds. */
    @SuppressWarnings("deprecation")
    private static PullResult pull(DefaultMQPullConsumer consumer, MessageQueue queue, long at) throws Exception {
        for (int tries = 1; ; tries++) {
            try {
                return consumer.pull(queue, "*", at, PULL, Judge.TIMEOUT_MS);
            } catch (MQClientException unknown) {
                if (tries == ROUTE_TRIES) {
                    throw unknown;
                }
                Thread.sleep(1_000);
            }
        }
    }

    static Map<String, Object> row(MessageExt message) throws Exception {
        Map<String, Object> row = new LinkedHashMap<>();
        row.put("topic", message.getTopic());
        row.put("queue", message.getQueueId());
        row.put("offset", message.getQueueOffset());
        row.put("log", message.getCommitLogOffset());
        row.put("size", message.getStoreSize());
        row.put("body", sha1(message.getBody()));
        row.put("born", message.getBornTimestamp());
        row.put("bornHost", host(message.getBornHost()));
        row.put("storeHost", host(message.getStoreHost()));
        row.put("stored", message.getStoreTimestamp());
        row.put("sys", message.getSysFlag());
        row.put("flag", message.getFlag());
        row.put("tries", message.getReconsumeTimes());
        row.put("prepared", message.getPreparedTransactionOffset());
        Map<String, String> properties = new TreeMap<>(message.getProperties());
        properties.remove("MIN_OFFSET"); // the client adds these two
        properties.remove("MAX_OFFSET");
        properties.remove("__CRC32#");
        row.put("properties", properties);
        return row;
    }

    private static String host(SocketAddress host) {
        InetSocketAddress known = (InetSocketAddress) host;
        return known.getAddress().getHostAddress() + ":" + known.getPort();
    }

    private static String sha1(byte[] body) throws Exception {
        byte[] bytes = body == null ? new byte[0] : body;
        return HexFormat.of().formatHex(MessageDigest.getInstance("SHA-1").digest(bytes));
    }
}

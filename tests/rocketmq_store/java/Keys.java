import com.alibaba.fastjson2.JSON;
import com.alibaba.fastjson2.JSONObject;
import java.io.PrintWriter;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.Semaphore;
import java.util.stream.LongStream;
import org.apache.rocketmq.common.message.MessageDecoder;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.remoting.InvokeCallback;
import org.apache.rocketmq.remoting.netty.ResponseFuture;
import org.apache.rocketmq.remoting.protocol.RemotingCommand;
import org.apache.rocketmq.remoting.protocol.ResponseCode;
import org.apache.rocketmq.remoting.protocol.header.QueryMessageRequestHeader;

/** Searches by key and by message id, as RocketMQ's tools ask the broker, many at a time. */
final class Keys {
    private static final int UNDER_WAY_MAX = 64;
    private static final int FOUND_MAX = 64;
    private static final int TOLD_EVERY = 50_000;

    private Keys() {}

    /** Lines {topic, key, id: whether it is a message id} → the same and `found`, places in the log. */
    static void find(Judge judge, List<JSONObject> wanted, Path out) throws Exception {
        Semaphore room = new Semaphore(UNDER_WAY_MAX);
        ConcurrentLinkedQueue<String> failed = new ConcurrentLinkedQueue<>();
        int asked = 0;
        try (PrintWriter lines = new PrintWriter(Files.newBufferedWriter(out, StandardCharsets.UTF_8))) {
            for (JSONObject one : wanted) {
                room.acquire();
                judge.api().queryMessage(judge.broker, header(one), Judge.TIMEOUT_MS, new InvokeCallback() {
                    @Override
                    public void operationComplete(ResponseFuture answer) {
                        try {
                            one.put("found", found(answer.getResponseCommand(), one));
                            synchronized (lines) {
                                lines.println(JSON.toJSONString(one));
                            }
                        } catch (Exception wrong) {
                            failed.add(one + ": " + wrong);
                        } finally {
                            room.release();
                        }
                    }
                }, one.getBooleanValue("id"));
                if (++asked % TOLD_EVERY == 0) {
                    System.out.printf("          … %,d of %,d keys asked for%n", asked, wanted.size());
                }
            }
            room.acquire(UNDER_WAY_MAX);
        }
        if (!failed.isEmpty()) {
            throw new IllegalStateException(failed.size() + " searches failed: " + failed.peek());
        }
    }

    private static QueryMessageRequestHeader header(JSONObject one) {
        QueryMessageRequestHeader header = new QueryMessageRequestHeader();
        header.setTopic(one.getString("topic"));
        header.setKey(one.getString("key"));
        header.setMaxNum(FOUND_MAX);
        header.setBeginTimestamp(0L);
        header.setEndTimestamp(Long.MAX_VALUE);
        return header;
    }

    /** The broker answers by hashes; its clients compare, and so does this. */
    private static long[] found(RemotingCommand answer, JSONObject one) {
        if (answer == null) {
            throw new IllegalStateException("no answer in time");
        }
        if (answer.getCode() == ResponseCode.QUERY_NOT_FOUND) {
            return new long[0];
        }
        if (answer.getCode() != ResponseCode.SUCCESS) {
            throw new IllegalStateException(answer.getCode() + " " + answer.getRemark());
        }
        LongStream.Builder places = LongStream.builder();
        ByteBuffer all = ByteBuffer.wrap(answer.getBody());
        while (all.hasRemaining()) {
            int size = all.getInt(all.position());
            MessageExt message = MessageDecoder.decode(all.slice(all.position(), size), false, false);
            all.position(all.position() + size);
            if (message.getTopic().equals(one.getString("topic")) && has(message, one)) {
                places.add(message.getCommitLogOffset());
            }
        }
        return places.build().sorted().toArray();
    }

    private static boolean has(MessageExt message, JSONObject one) {
        String key = one.getString("key");
        if (one.getBooleanValue("id")) {
            return key.equals(message.getProperty("UNIQ_KEY"));
        }
        return message.getKeys() != null && Arrays.asList(message.getKeys().split(" ")).contains(key);
    }
}

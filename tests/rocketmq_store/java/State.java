import com.alibaba.fastjson2.JSON;
import com.alibaba.fastjson2.JSONObject;
import java.io.PrintWriter;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import org.apache.rocketmq.common.TopicConfig;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;
import org.apache.rocketmq.remoting.protocol.admin.TopicOffset;

/** Tables of the broker, and single messages. */
final class State {
    private State() {}

    static Map<String, TopicConfig> topics(Judge judge) throws Exception {
        return new TreeMap<>(judge.api().getAllTopicConfig(judge.broker, Judge.TIMEOUT_MS).getTopicConfigTable());
    }

    /** Queues that hold messages, or did. */
    static Map<MessageQueue, TopicOffset> queues(Judge judge) throws Exception {
        Map<MessageQueue, TopicOffset> queues = new TreeMap<>();
        for (String topic : topics(judge).keySet()) {
            var table = judge.api().getTopicStatsInfo(judge.broker, topic, Judge.TIMEOUT_MS).getOffsetTable();
            table.forEach((queue, range) -> {
                if (range.getMaxOffset() > 0) {
                    queues.put(queue, range);
                }
            });
        }
        return queues;
    }

    static void write(Judge judge, Path out) throws Exception {
        var groups = judge.api().getAllSubscriptionGroup(judge.broker, Judge.TIMEOUT_MS).getSubscriptionGroupTable();
        try (PrintWriter lines = new PrintWriter(Files.newBufferedWriter(out, StandardCharsets.UTF_8))) {
            for (TopicConfig topic : topics(judge).values()) {
                lines.println(JSON.toJSONString(Map.of("topic", topic.getTopicName(), "config", topic)));
            }
            for (var queue : queues(judge).entrySet()) {
                Map<String, Object> line = place(queue.getKey());
                line.put("min", queue.getValue().getMinOffset());
                line.put("max", queue.getValue().getMaxOffset());
                lines.println(JSON.toJSONString(line));
            }
            for (var group : groups.values()) {
                lines.println(JSON.toJSONString(Map.of("group", group.getGroupName(), "config", group)));
                var table = judge.api().getConsumeStats(judge.broker, group.getGroupName(), Judge.TIMEOUT_MS);
                for (var queue : table.getOffsetTable().entrySet()) {
                    Map<String, Object> line = place(queue.getKey());
                    line.put("of", group.getGroupName());
                    line.put("position", queue.getValue().getConsumerOffset());
                    lines.println(JSON.toJSONString(line));
                }
            }
        }
    }

    private static Map<String, Object> place(MessageQueue queue) {
        Map<String, Object> line = new LinkedHashMap<>();
        line.put("in", queue.getTopic());
        line.put("queue", queue.getQueueId());
        return line;
    }

    /** Lines {topic, log} → the message there. */
    static void view(Judge judge, List<JSONObject> wanted, Path out) throws Exception {
        try (PrintWriter lines = new PrintWriter(Files.newBufferedWriter(out, StandardCharsets.UTF_8))) {
            for (JSONObject one : wanted) {
                String topic = one.getString("topic");
                MessageExt viewed = judge.api().viewMessage(judge.broker, topic, one.getLongValue("log"), Judge.TIMEOUT_MS);
                lines.println(JSON.toJSONString(Reader.row(viewed)));
            }
        }
    }
}

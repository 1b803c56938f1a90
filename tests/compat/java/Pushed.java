import java.util.List;
import java.util.Map;
import java.util.concurrent.CopyOnWriteArrayList;
import org.apache.rocketmq.client.apis.consumer.ConsumeResult;
import org.apache.rocketmq.client.apis.consumer.PushConsumer;
import org.apache.rocketmq.client.apis.message.MessageBuilder;
import org.apache.rocketmq.client.apis.producer.Producer;

/** What a push consumer hands to its listener. Closing it takes as long as its polls, so one does. */
final class Pushed {
    private Pushed() {}

    private static boolean isBody(Map<String, Object> message, String body) {
        return message.get("body").equals(body);
    }

    private static ConsumeResult failing(boolean isFailure) {
        return isFailure ? ConsumeResult.FAILURE : ConsumeResult.SUCCESS;
    }

    /** Until `count` have come, or for so long; and then for what comes too often. */
    private static void wait(List<?> seen, int count, int seconds) throws InterruptedException {
        long end = System.nanoTime() + seconds * 1_000_000_000L;
        while (seen.size() < count && System.nanoTime() < end) {
            Thread.sleep(100);
        }
        Thread.sleep(3_000);
    }

    static Map<String, Object> push() throws Exception {
        List<Map<String, Object>> seen = new CopyOnWriteArrayList<>();
        PushConsumer started = Driver.pushConsumer(message -> {
            seen.add(message);
            return failing(isBody(message, "body-3") && message.get("attempt").equals(1));
        });
        try (started; Producer sender = Driver.producer()) {
            for (int i = 0; i < 10; i++) {
                sender.send(Driver.message("body-" + i).build());
            }
            wait(seen, 11, 40);
        }
        return Map.of("messages", seen);
    }

    static Map<String, Object> slowPush() throws Exception {
        List<Map<String, Object>> seen = new CopyOnWriteArrayList<>();
        List<Double> ended = new CopyOnWriteArrayList<>();
        long began = System.nanoTime();
        Driver.pushConsumer(message -> {
            seen.add(message);
            Thread.sleep(7_000);
            ended.add((System.nanoTime() - began) / 1e9);
            return ConsumeResult.SUCCESS;
        });
        try (Producer sender = Driver.producer()) {
            sender.send(Driver.message("slow").build());
            wait(ended, 1, 30);
        }
        return Map.of("messages", seen, "seconds", ended.get(0));
    }

    static Map<String, Object> fifoPush() throws Exception {
        List<Map<String, Object>> seen = new CopyOnWriteArrayList<>();
        Driver.pushConsumer(message -> {
            boolean isFirst = seen.stream().noneMatch(one -> isBody(one, "a-3"));
            seen.add(message);
            return failing(isBody(message, "a-3") && isFirst);
        });
        try (Producer sender = Driver.producer()) {
            for (int i = 0; i < 10; i++) {
                for (String name : List.of("a", "b", "c")) {
                    sender.send(Driver.inOrder(name + "-" + i, name));
                }
            }
            wait(seen, 31, 60);
        }
        return Map.of("messages", seen);
    }

    /** Four messages, of which the second always fails. */
    static Map<String, Object> poisoned(boolean isOrdered) throws Exception {
        List<Map<String, Object>> seen = new CopyOnWriteArrayList<>();
        Driver.pushConsumer(message -> {
            seen.add(message);
            return failing(isBody(message, "body-1"));
        });
        try (Producer sender = Driver.producer()) {
            for (int i = 0; i < 4; i++) {
                MessageBuilder message = Driver.message("body-" + i);
                sender.send(isOrdered ? message.setMessageGroup("one").build() : message.build());
            }
            wait(seen, 5, 40);
        }
        return Map.of("messages", seen);
    }
}

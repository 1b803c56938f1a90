import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import org.apache.rocketmq.client.apis.ClientException;
import org.apache.rocketmq.client.apis.consumer.FilterExpression;
import org.apache.rocketmq.client.apis.consumer.FilterExpressionType;
import org.apache.rocketmq.client.apis.consumer.SimpleConsumer;
import org.apache.rocketmq.client.apis.message.MessageBuilder;
import org.apache.rocketmq.client.apis.message.MessageView;
import org.apache.rocketmq.client.apis.producer.Producer;

/** What a simple consumer sees. */
final class Receiving {
    private static final Map<String, Map<String, String>> PRODUCTS = Map.of(
            "near", Map.of("price", "30", "regionId", "hangzhou"),
            "dear", Map.of("price", "300", "regionId", "hangzhou"),
            "anywhere", Map.of("price", "30"),
            "free", Map.of());

    private Receiving() {}

    static Map<String, Object> roundTrip() throws Exception {
        try (Producer sender = Driver.producer(); SimpleConsumer receiver = Driver.consumer()) {
            List<String> sent = new ArrayList<>();
            for (int i = 0; i < 10; i++) {
                MessageBuilder message = Driver.message("body-" + i + " 中文 🏷")
                        .setTag("blue")
                        .setKeys("key-1", "key-2")
                        .addProperty("colour", "blau, naïve");
                boolean isAsync = i % 2 == 0;
                var receipt = isAsync ? sender.sendAsync(message.build()).get() : sender.send(message.build());
                sent.add(receipt.getMessageId().toString());
            }
            List<MessageView> messages = Driver.receive(receiver, 10);
            Driver.ack(receiver, messages);
            List<MessageView> again = Driver.receive(receiver, 1, 3, Driver.INVISIBLE);
            return Map.of("sent", sent, "messages", Driver.views(messages), "again", Driver.views(again));
        }
    }

    static Map<String, Object> away() throws Exception {
        Driver.consumer().close();
        List<String> sent = new ArrayList<>();
        try (Producer sender = Driver.producer()) {
            for (int i = 0; i < 8; i++) {
                sent.add(sender.send(Driver.message("body-" + i).build()).getMessageId().toString());
            }
        }
        try (SimpleConsumer receiver = Driver.consumer()) {
            List<MessageView> messages = Driver.receive(receiver, sent.size());
            Driver.ack(receiver, messages);
            return Map.of("sent", sent, "messages", Driver.views(messages));
        }
    }

    static Map<String, Object> wakes() throws Exception {
        List<Double> waited = new ArrayList<>();
        try (Producer sender = Driver.producer();
                SimpleConsumer receiver = Driver.consumer(FilterExpression.SUB_ALL, 20)) {
            for (int i = 0; i < 6; i++) {
                CompletableFuture<List<MessageView>> waiting = receiver.receiveAsync(32, Driver.INVISIBLE);
                Thread.sleep(1_000); // until it waits
                sender.send(Driver.message("body-" + i).build());
                long sent = System.nanoTime();
                List<MessageView> messages = waiting.get();
                if (messages.isEmpty()) {
                    messages = Driver.receive(receiver, 1, 60, Driver.INVISIBLE);
                }
                waited.add((System.nanoTime() - sent) / 1e9);
                Driver.ack(receiver, messages);
            }
        }
        return Map.of("waited_s", waited);
    }

    static Map<String, Object> redelivery() throws Exception {
        try (Producer sender = Driver.producer(); SimpleConsumer receiver = Driver.consumer()) {
            sender.send(Driver.message("once more").build());
            List<MessageView> messages = new ArrayList<>(Driver.receive(receiver, 1, 15, Duration.ofSeconds(10)));
            messages.addAll(Driver.receive(receiver, 1));
            boolean isRefused = false;
            try {
                receiver.ack(messages.get(0));
            } catch (ClientException refused) {
                isRefused = refused.getMessage().contains("INVALID_RECEIPT_HANDLE");
            }
            receiver.ack(messages.get(1));
            return Map.of("messages", Driver.views(messages), "late_ack_refused", isRefused);
        }
    }

    static Map<String, Object> changeInvisible() throws Exception {
        try (Producer sender = Driver.producer(); SimpleConsumer receiver = Driver.consumer()) {
            sender.send(Driver.message("hold me").build());
            MessageView held = Driver.receive(receiver, 1, 15, Duration.ofSeconds(10)).get(0);
            receiver.changeInvisibleDuration(held, Duration.ofSeconds(20));
            List<MessageView> whileHeld = Driver.receive(receiver, 1, 12, Driver.INVISIBLE);
            receiver.ack(held);
            List<MessageView> afterAck = Driver.receive(receiver, 1, 12, Driver.INVISIBLE);
            return Map.of("while_held", Driver.views(whileHeld), "after_ack", Driver.views(afterAck));
        }
    }

    static Map<String, Object> tagFilter() throws Exception {
        FilterExpression wanted = new FilterExpression(" A || Aa ");
        try (Producer sender = Driver.producer(); SimpleConsumer receiver = Driver.consumer(wanted, 2)) {
            for (String tag : List.of("A", "Aa", "BB", "C")) {
                sender.send(Driver.message(tag).setTag(tag).build());
            }
            return filtered(receiver, 2);
        }
    }

    static Map<String, Object> sqlFilter() throws Exception {
        FilterExpression wanted = new FilterExpression(
                "(price BETWEEN 10 AND 100) AND regionId IS NOT NUll", FilterExpressionType.SQL92);
        try (Producer sender = Driver.producer(); SimpleConsumer receiver = Driver.consumer(wanted, 2)) {
            for (var product : PRODUCTS.entrySet()) {
                MessageBuilder message = Driver.message(product.getKey());
                product.getValue().forEach(message::addProperty);
                sender.send(message.build());
            }
            return filtered(receiver, 1);
        }
    }

    private static Map<String, Object> filtered(SimpleConsumer receiver, int count) throws Exception {
        List<MessageView> messages = new ArrayList<>(Driver.receive(receiver, count));
        messages.addAll(Driver.receive(receiver, 3, 5, Driver.INVISIBLE)); // what should not come
        Driver.ack(receiver, messages);
        return Map.of("messages", Driver.views(messages));
    }

    static Map<String, Object> fifo() throws Exception {
        try (Producer sender = Driver.producer(); SimpleConsumer receiver = Driver.consumer()) {
            long began = System.nanoTime();
            for (int i = 0; i < 256; i++) {
                sender.send(Driver.inOrder("m-" + i, "one"));
            }
            List<MessageView> messages = new ArrayList<>();
            while (messages.size() < 256 && System.nanoTime() - began < 60_000_000_000L) {
                List<MessageView> found = receiver.receive(32, Driver.INVISIBLE);
                Driver.ack(receiver, found);
                messages.addAll(found);
            }
            double seconds = (System.nanoTime() - began) / 1e9;
            return Map.of("messages", Driver.views(messages), "seconds", seconds);
        }
    }
}

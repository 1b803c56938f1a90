import java.time.Duration;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CopyOnWriteArrayList;
import org.apache.rocketmq.client.apis.ClientException;
import org.apache.rocketmq.client.apis.consumer.SimpleConsumer;
import org.apache.rocketmq.client.apis.message.MessageView;
import org.apache.rocketmq.client.apis.producer.Producer;
import org.apache.rocketmq.client.apis.producer.RecallReceipt;
import org.apache.rocketmq.client.apis.producer.SendReceipt;
import org.apache.rocketmq.client.apis.producer.Transaction;
import org.apache.rocketmq.client.apis.producer.TransactionResolution;

/** Messages that wait for their time, or for their sender. */
final class Sending {
    private static final Duration LONG = Duration.ofSeconds(60);

    private Sending() {}

    static Map<String, Object> delay() throws Exception {
        try (Producer sender = Driver.producer(); SimpleConsumer receiver = Driver.consumer()) {
            long due = System.currentTimeMillis() + 4_321;
            List<SendReceipt> receipts = new ArrayList<>();
            for (String body : List.of("later", "taken back")) {
                receipts.add(sender.send(Driver.message(body).setDeliveryTimestamp(due).build()));
            }
            RecallReceipt recalled =
                    sender.recallMessage(Driver.topic, receipts.get(1).getRecallHandle());
            List<MessageView> messages = new ArrayList<>(Driver.receive(receiver, 1));
            long came = System.currentTimeMillis();
            messages.addAll(Driver.receive(receiver, 1, 3, Driver.INVISIBLE)); // what should not come
            String tooLate = "";
            try {
                sender.recallMessage(Driver.topic, receipts.get(0).getRecallHandle());
            } catch (ClientException refused) {
                tooLate = refused.getMessage();
            }
            Map<String, Object> found = new LinkedHashMap<>();
            found.put("sent", receipts.stream().map(one -> one.getMessageId().toString()).toList());
            found.put("recalled", recalled.getMessageId().toString());
            found.put("messages", Driver.views(messages));
            found.put("due_ms", due);
            found.put("told_due_ms", messages.get(0).getDeliveryTimestamp().orElse(0L));
            found.put("came_ms", came);
            found.put("too_late", tooLate);
            return found;
        }
    }

    static Map<String, Object> transaction() throws Exception {
        List<String> asked = new CopyOnWriteArrayList<>();
        Producer sender = Driver.producer(message -> {
            String body = Driver.body(message);
            asked.add(body);
            return body.equals("forgotten-commit") ? TransactionResolution.COMMIT : TransactionResolution.ROLLBACK;
        });
        try (sender; SimpleConsumer receiver = Driver.consumer()) {
            for (String body : List.of("commit", "rollback", "forgotten-commit", "forgotten-rollback")) {
                Transaction begun = sender.beginTransaction();
                sender.send(Driver.message(body).build(), begun);
                if (body.equals("commit")) {
                    begun.commit();
                } else if (body.equals("rollback")) {
                    begun.rollback();
                }
            }
            List<MessageView> messages = new ArrayList<>(Driver.receive(receiver, 2, 30, LONG)); // held until all came
            messages.addAll(Driver.receive(receiver, 2, 5, LONG)); // what should not come
            Driver.ack(receiver, messages);
            return Map.of("messages", Driver.views(messages), "asked", asked);
        }
    }
}

import com.alibaba.fastjson2.JSON;
import com.alibaba.fastjson2.JSONObject;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Properties;
import java.util.Set;
import org.apache.rocketmq.client.impl.MQClientAPIImpl;
import org.apache.rocketmq.tools.admin.DefaultMQAdminExt;

/**
 * What the suite asks of RocketMQ's own clients and tools, one command a run:
 *
 * <pre>
 * setup IN           make topics and groups
 * delete TOPIC
 * write IN POOL OUT  send messages; bodies are pieces of POOL
 * read OUT           every message of every queue
 * state OUT          topics, groups, queues' ends, positions
 * view IN OUT        messages by their place in the log
 * keys IN OUT        messages by key and by id
 * set NAME VALUE     change a setting of the broker
 * recall IN          delayed messages shall not come
 * end IN             commit or roll back half messages
 * answer GROUP TOPIC TURN SECONDS OUT   be a producer that the broker asks about transactions
 * </pre>
 *
 * Files hold one JSON object a line. Arguments before the command: nameserver, broker.
 */
public final class Judge {
    static final long TIMEOUT_MS = 120_000;

    final String nameserver;
    final String broker;
    final DefaultMQAdminExt admin = new DefaultMQAdminExt(TIMEOUT_MS);

    private Judge(String nameserver, String broker) {
        this.nameserver = nameserver;
        this.broker = broker;
    }

    public static void main(String[] args) {
        try {
            run(args);
            System.exit(0);
        } catch (Throwable failed) {
            failed.printStackTrace();
            System.exit(1);
        } // either way: RocketMQ's client threads would keep the process alive
    }

    private static void run(String[] args) throws Exception {
        Judge judge = new Judge(args[0], args[1]);
        judge.admin.setNamesrvAddr(judge.nameserver);
        judge.admin.setInstanceName("judge");
        judge.admin.start();
        switch (args[2]) {
            case "setup" -> Writer.setUp(judge, lines(args[3]));
            case "delete" -> judge.admin.deleteTopicInBroker(Set.of(judge.broker), args[3]);
            case "write" -> Writer.write(judge, lines(args[3]), Path.of(args[4]), Path.of(args[5]));
            case "read" -> Reader.read(judge, Path.of(args[3]));
            case "state" -> State.write(judge, Path.of(args[3]));
            case "view" -> State.view(judge, lines(args[3]), Path.of(args[4]));
            case "keys" -> Keys.find(judge, lines(args[3]), Path.of(args[4]));
            case "set" -> {
                Properties changed = new Properties();
                changed.setProperty(args[3], args[4]);
                judge.admin.updateBrokerConfig(judge.broker, changed);
            }
            case "recall" -> Settler.recall(judge, lines(args[3]));
            case "end" -> Settler.end(judge, lines(args[3]));
            case "answer" -> Settler.answer(
                    judge, args[3], args[4], Integer.parseInt(args[5]), Long.parseLong(args[6]), Path.of(args[7]));
            default -> throw new IllegalArgumentException(args[2]);
        }
    }

    MQClientAPIImpl api() {
        return admin.getDefaultMQAdminExtImpl().getMqClientInstance().getMQClientAPIImpl();
    }

    static List<JSONObject> lines(String path) throws IOException {
        return Files.readAllLines(Path.of(path)).stream().map(JSON::parseObject).toList();
    }
}

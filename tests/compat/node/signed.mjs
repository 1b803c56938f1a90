// The official Node client, one command after the other: a JSON line on stdin is a command, a JSON
// line on stdout what it led to (tests/compat/session.py).
import { createInterface } from 'node:readline';
import { ConsumeResult, Producer, PushConsumer, SimpleConsumer } from 'rocketmq-client-nodejs';

const COMMIT = 1; // TransactionResolution, which the package does not export
const WAIT_MS = 2000;
const SLOW_MS = 2000;
const INVISIBLE_MS = 30_000;
const quiet = { info() {}, warn() {}, error() {}, debug() {}, log() {} };
const clients = {};
const seen = {};
const held = {};
const receipts = {};

function made({ name, kind, endpoint, topic, group, user, secret }) {
  const at = { endpoints: endpoint, namespace: '', logger: quiet };
  if (user) at.sessionCredentials = { accessKey: user, accessSecret: secret };
  const consumer = { ...at, consumerGroup: group, subscriptions: new Map([[topic, '*']]) };
  if (kind === 'producer') return new Producer({ ...at, topics: [topic] });
  if (kind === 'transactional') {
    return new Producer({ ...at, topics: [topic], checker: { check: async () => COMMIT } });
  }
  if (kind === 'simple') return new SimpleConsumer({ ...consumer, awaitDuration: WAIT_MS });
  const bodies = seen[name] = [];
  const consume = async received => {
    const body = received.body.toString();
    bodies.push(body);
    if (body === 'slow') await new Promise(done => setTimeout(done, SLOW_MS));
    return ConsumeResult.SUCCESS;
  };
  return new PushConsumer({ ...consumer, messageListener: { consume } });
}

const commands = {
  async start(asked) {
    const client = made(asked);
    try {
      await client.startup();
    } catch (error) {
      await client.shutdown().catch(() => {}); // or its Telemetry would go on
      throw error;
    }
    clients[asked.name] = client;
  },
  async send({ name, topic, body, delay_s }) {
    const more = delay_s ? { deliveryTimestamp: new Date(Date.now() + delay_s * 1000) } : {};
    receipts[name] = await clients[name].send({ topic, body: Buffer.from(body), ...more });
  },
  async recall({ name, topic }) {
    await clients[name].recallMessage(topic, receipts[name].recallHandle);
  },
  async transact({ name, topic, body }) {
    const begun = clients[name].beginTransaction();
    await clients[name].send({ topic, body: Buffer.from(body) }, begun);
    await begun.commit();
  },
  async receive({ name }) {
    const found = await clients[name].receive(32, INVISIBLE_MS);
    if (found.length) held[name] = found;
    return found.map(one => one.body.toString());
  },
  async change({ name }) {
    for (const one of held[name]) await clients[name].changeInvisibleDuration(one, INVISIBLE_MS);
  },
  async ack({ name }) {
    for (const one of held[name]) await clients[name].ack(one);
  },
  async taken({ name }) {
    return seen[name];
  },
  async stop({ name }) {
    await clients[name].shutdown();
    delete clients[name];
  },
};

const text = error => `${error.name}: ${error.message}${error.cause ? ` <- ${text(error.cause)}` : ''}`;
for await (const line of createInterface({ input: process.stdin })) {
  const { do: what, ...asked } = JSON.parse(line);
  let answer;
  try {
    answer = { value: await commands[what](asked) ?? null };
  } catch (error) {
    answer = { error: text(error) };
  }
  console.log(JSON.stringify(answer));
}
process.exit(0);

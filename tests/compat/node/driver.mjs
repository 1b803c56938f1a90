// Scenarios on the official Node client.
//
//     node driver.mjs SCENARIO SEND_TO RECEIVE_FROM TOPIC GROUP
import { ConsumeResult, FilterExpression, Producer, PushConsumer, SimpleConsumer } from 'rocketmq-client-nodejs';

const [scenario, sendTo, receiveFrom, topic, group] = process.argv.slice(2);
const quiet = { info() {}, warn() {}, error() {}, debug() {}, log() {} };
const pause = ms => new Promise(done => setTimeout(done, ms));

async function producer() {
  const started = new Producer({ endpoints: sendTo, namespace: '', topics: [topic], logger: quiet });
  await started.startup();
  return started;
}

async function consumer(expression = '*', wait = 2000) {
  const started = new SimpleConsumer({
    endpoints: receiveFrom,
    namespace: '',
    consumerGroup: group,
    subscriptions: new Map([[topic, expression]]),
    awaitDuration: wait,
    logger: quiet,
  });
  await started.startup();
  return started;
}

const message = (body, more = {}) => ({ topic, body: Buffer.from(body), ...more });

const fields = received => ({
  id: received.messageId,
  body: received.body.toString(),
  attempt: received.deliveryAttempt,
  tag: received.tag,
  keys: [...received.keys].sort(),
  properties: Object.fromEntries(received.properties),
});

// Until `count` messages came or the time is over.
async function receive(started, count, seconds = 15, invisible = 20) {
  const found = [];
  const end = Date.now() + seconds * 1000;
  while (found.length < count && Date.now() < end) {
    found.push(...await started.receive(32, invisible * 1000));
  }
  return found;
}

async function roundTrip() {
  const sender = await producer();
  const receiver = await consumer();
  const sent = [];
  for (let i = 0; i < 10; i++) {
    const properties = new Map([['colour', 'blau, naïve']]);
    const more = { tag: 'blue', keys: ['key-1', 'key-2'], properties };
    sent.push((await sender.send(message(`body-${i} 中文 🏷`, more))).messageId);
  }
  const messages = await receive(receiver, 10);
  for (const one of messages) await receiver.ack(one);
  const again = await receive(receiver, 1, 3);
  await sender.shutdown();
  await receiver.shutdown();
  return { sent, messages: messages.map(fields), again: again.map(one => one.messageId) };
}

async function away() {
  await (await consumer()).shutdown();
  const sender = await producer();
  const sent = [];
  for (let i = 0; i < 8; i++) sent.push((await sender.send(message(`body-${i}`))).messageId);
  const receiver = await consumer();
  const messages = await receive(receiver, sent.length);
  for (const one of messages) await receiver.ack(one);
  await sender.shutdown();
  await receiver.shutdown();
  return { sent, messages: messages.map(fields) };
}

async function wakes() {
  const sender = await producer();
  const receiver = await consumer('*', 20_000);
  const waited = [];
  for (let i = 0; i < 6; i++) {
    const waiting = receive(receiver, 1, 60);
    await pause(1000); // until it waits
    await sender.send(message(`body-${i}`));
    const sentMs = Date.now();
    const [received] = await waiting;
    waited.push((Date.now() - sentMs) / 1000);
    await receiver.ack(received);
  }
  await sender.shutdown();
  await receiver.shutdown();
  return { waited_s: waited };
}

async function delay() {
  const sender = await producer();
  const receiver = await consumer();
  const due = new Date(Date.now() + 4321);
  const receipts = [];
  for (const body of ['later', 'taken back']) {
    receipts.push(await sender.send(message(body, { deliveryTimestamp: due })));
  }
  const recalled = await sender.recallMessage(topic, receipts[1].recallHandle);
  const messages = await receive(receiver, 1);
  const cameMs = Date.now();
  messages.push(...await receive(receiver, 1, 3)); // what should not come
  let tooLate = '';
  try {
    await sender.recallMessage(topic, receipts[0].recallHandle);
  } catch (error) {
    tooLate = error.message;
  }
  await sender.shutdown();
  await receiver.shutdown();
  return {
    sent: receipts.map(one => one.messageId),
    recalled: recalled.messageId,
    messages: messages.map(fields),
    due_ms: due.getTime(),
    told_due_ms: messages[0].deliveryTimestamp.getTime(),
    came_ms: cameMs,
    too_late: tooLate,
  };
}

async function redelivery() {
  const sender = await producer();
  const receiver = await consumer();
  await sender.send(message('once more'));
  const first = await receive(receiver, 1, 15, 10);
  const second = await receive(receiver, 1);
  let refused = false;
  try {
    await receiver.ack(first[0]);
  } catch (error) {
    refused = error.code === 40013;
  }
  await receiver.ack(second[0]);
  await sender.shutdown();
  await receiver.shutdown();
  return { messages: [...first, ...second].map(fields), late_ack_refused: refused };
}

async function changeInvisible() {
  const sender = await producer();
  const receiver = await consumer();
  await sender.send(message('hold me'));
  const [held] = await receive(receiver, 1, 15, 10);
  await receiver.changeInvisibleDuration(held, 20_000);
  const whileHeld = await receive(receiver, 1, 12);
  await receiver.ack(held);
  const afterAck = await receive(receiver, 1, 12);
  await sender.shutdown();
  await receiver.shutdown();
  return { while_held: whileHeld.map(fields), after_ack: afterAck.map(fields) };
}

async function tagFilter() {
  const sender = await producer();
  const receiver = await consumer(' A || Aa ');
  for (const tag of ['A', 'Aa', 'BB', 'C']) await sender.send(message(tag, { tag }));
  const messages = await receive(receiver, 2);
  messages.push(...await receive(receiver, 2, 4)); // what should not come
  for (const one of messages) await receiver.ack(one);
  await sender.shutdown();
  await receiver.shutdown();
  return { messages: messages.map(fields) };
}

async function sqlFilter() {
  const sender = await producer();
  const sql = 2; // FilterType, which the package does not export
  const wanted = '(price BETWEEN 10 AND 100) AND regionId IS NOT NUll';
  const receiver = await consumer(new FilterExpression(wanted, sql));
  const products = {
    near: [['price', '30'], ['regionId', 'hangzhou']],
    dear: [['price', '300'], ['regionId', 'hangzhou']],
    anywhere: [['price', '30']],
    free: [],
  };
  for (const [body, named] of Object.entries(products)) {
    await sender.send(message(body, { properties: new Map(named) }));
  }
  const messages = await receive(receiver, 1);
  messages.push(...await receive(receiver, 3, 5)); // what should not come
  for (const one of messages) await receiver.ack(one);
  await sender.shutdown();
  await receiver.shutdown();
  return { messages: messages.map(fields) };
}

async function push() {
  const seen = [];
  const started = new PushConsumer({
    endpoints: receiveFrom,
    namespace: '',
    consumerGroup: group,
    subscriptions: new Map([[topic, '*']]),
    logger: quiet,
    messageListener: {
      async consume(received) {
        const found = fields(received);
        seen.push(found);
        const failed = found.body === 'body-3' && found.attempt === 1;
        return failed ? ConsumeResult.FAILURE : ConsumeResult.SUCCESS;
      },
    },
  });
  await started.startup();
  const sender = await producer();
  for (let i = 0; i < 10; i++) await sender.send(message(`body-${i}`));
  const end = Date.now() + 40_000;
  while (seen.length < 11 && Date.now() < end) await pause(100);
  await pause(2000); // anything that comes too often would come now
  await sender.shutdown();
  await started.shutdown();
  return { messages: seen };
}

async function slowPush() {
  const seen = [];
  const began = Date.now();
  let done = false;
  const started = new PushConsumer({
    endpoints: receiveFrom,
    namespace: '',
    consumerGroup: group,
    subscriptions: new Map([[topic, '*']]),
    logger: quiet,
    messageListener: {
      async consume(received) {
        seen.push(fields(received));
        await pause(7000);
        done = true;
        return ConsumeResult.SUCCESS;
      },
    },
  });
  await started.startup();
  const sender = await producer();
  await sender.send(message('slow'));
  while (!done && Date.now() < began + 30_000) await pause(100);
  const seconds = (Date.now() - began) / 1000;
  await pause(4000); // had it not been acked, it would come now
  await sender.shutdown();
  await started.shutdown();
  return { messages: seen, seconds };
}

async function fifo() {
  const sender = await producer();
  const receiver = await consumer();
  const began = Date.now();
  for (let i = 0; i < 256; i++) await sender.send(message(`m-${i}`, { messageGroup: 'one' }));
  const messages = [];
  while (messages.length < 256 && Date.now() < began + 60_000) {
    for (const one of await receiver.receive(32, 20_000)) {
      messages.push(one);
      await receiver.ack(one);
    }
  }
  const seconds = (Date.now() - began) / 1000;
  await sender.shutdown();
  await receiver.shutdown();
  return { messages: messages.map(fields), seconds };
}

async function fifoPush() {
  const seen = [];
  const started = new PushConsumer({
    endpoints: receiveFrom,
    namespace: '',
    consumerGroup: group,
    subscriptions: new Map([[topic, '*']]),
    logger: quiet,
    messageListener: {
      async consume(received) {
        const found = fields(received);
        const failed = found.body === 'a-3' && !seen.some(one => one.body === 'a-3');
        seen.push(found);
        return failed ? ConsumeResult.FAILURE : ConsumeResult.SUCCESS;
      },
    },
  });
  await started.startup();
  const sender = await producer();
  for (let i = 0; i < 10; i++) {
    for (const name of ['a', 'b', 'c']) {
      await sender.send(message(`${name}-${i}`, { messageGroup: name }));
    }
  }
  const end = Date.now() + 60_000;
  while (seen.length < 31 && Date.now() < end) await pause(100);
  await pause(2000); // anything that comes too often would come now
  await sender.shutdown();
  await started.shutdown();
  return { messages: seen };
}

const deadLetters = () => poisoned(false);
const fifoDeadLetters = () => poisoned(true);

// Four messages, of which the second always fails.
async function poisoned(inOrder) {
  const seen = [];
  const started = new PushConsumer({
    endpoints: receiveFrom,
    namespace: '',
    consumerGroup: group,
    subscriptions: new Map([[topic, '*']]),
    logger: quiet,
    messageListener: {
      async consume(received) {
        const found = fields(received);
        seen.push(found);
        return found.body === 'body-1' ? ConsumeResult.FAILURE : ConsumeResult.SUCCESS;
      },
    },
  });
  await started.startup();
  const sender = await producer();
  const more = inOrder ? { messageGroup: 'one' } : {};
  for (let i = 0; i < 4; i++) await sender.send(message(`body-${i}`, more));
  const end = Date.now() + 40_000;
  while (seen.length < 5 && Date.now() < end) await pause(100);
  await pause(3000); // anything that comes too often would come now
  await sender.shutdown();
  await started.shutdown();
  return { messages: seen };
}

async function transaction() {
  const commit = 1; // TransactionResolution, which the package does not export
  const rollback = 2;
  const asked = [];
  const checker = {
    async check(received) {
      const body = received.body.toString();
      asked.push(body);
      return body === 'forgotten-commit' ? commit : rollback;
    },
  };
  const sender = new Producer({ endpoints: sendTo, namespace: '', topics: [topic], checker, logger: quiet });
  await sender.startup();
  const receiver = await consumer();
  for (const body of ['commit', 'rollback', 'forgotten-commit', 'forgotten-rollback']) {
    const begun = sender.beginTransaction();
    await sender.send(message(body), begun);
    if (!body.startsWith('forgotten')) await begun[body]();
  }
  const messages = await receive(receiver, 2, 30, 60); // held until all have come
  messages.push(...await receive(receiver, 2, 5, 60)); // what should not come
  for (const one of messages) await receiver.ack(one);
  await sender.shutdown();
  await receiver.shutdown();
  return { messages: messages.map(fields), asked };
}

const scenarios = {
  away,
  wakes,
  dead_letters: deadLetters,
  fifo_dead_letters: fifoDeadLetters,
  delay,
  transaction,
  fifo,
  fifo_push: fifoPush,
  round_trip: roundTrip,
  redelivery,
  change_invisible: changeInvisible,
  tag_filter: tagFilter,
  sql_filter: sqlFilter,
  push,
  slow_push: slowPush,
};
console.log(JSON.stringify(await scenarios[scenario]()));
process.exit(0);

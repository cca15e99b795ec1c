import { randomUUID } from 'node:crypto';
import kafkajs from 'kafkajs';
import { expect, onTestFinished, test, vi } from 'vitest';
import { messageTo, messagesTo } from '../conformance/messages.js';
import { KafkaWitness, createTopics, waitFor, withKafkaAdmin } from '../fixtures/index.js';
import { testKafka } from '../fixtures/test-services.js';
import { arrived, never, outcomeText } from '../fixtures/watched-transport.js';
import { connected } from './connected.js';

test('keys are in the partitions where the default partitioner of Java and kafkajs puts them', async () => {
  const { url, prefix: topic } = await testKafka();
  await createTopics(url, [topic], 7);
  await using witness = await KafkaWitness.create(url, topic);
  const { transport } = await connected(url);
  const keys = Array.from({ length: 50 }, () => randomUUID());
  const batch = keys.map((partitionkey) => messageTo(topic, { attributes: { partitionkey } }));
  expect(new Set((await transport.publish(batch, never)).map(outcomeText))).toEqual(new Set(['confirmed']));
  await arrived(witness.seen, batch.length);

  const choose = kafkajs.Partitioners.DefaultPartitioner();
  const partitionMetadata = Array.from({ length: 7 }, (_, partitionId) => ({
    partitionErrorCode: 0,
    partitionId,
    leader: 1,
    replicas: [1],
    isr: [1],
  }));
  for (const [index, { messageId }] of batch.entries()) {
    const message = { key: keys[index] ?? '', value: null };
    expect(witness.seen.find((seen) => seen.messageId === messageId)?.partition).toBe(
      choose({ topic, partitionMetadata, message }),
    );
  }
});

test('messages without a key are spread over the partitions, a call to each', async () => {
  const { url, prefix: topic } = await testKafka();
  await using witness = await KafkaWitness.create(url, topic);
  await withKafkaAdmin(url, (admin) => admin.createPartitions({ topicPartitions: [{ topic, count: 3 }] }));
  const { transport } = await connected(url);
  for (let call = 0; call < 3; call += 1) await transport.publish(messagesTo(topic, 5), never);
  const offsets = await withKafkaAdmin(url, (admin) => admin.fetchTopicOffsets(topic));
  expect(offsets.map(({ high }) => high)).toEqual(['5', '5', '5']);
  expect(witness.seen.length).toBeLessThanOrEqual(15);
});

test.each([48, -48])('a process whose clock is wrong by %d hours publishes as any other', async (hours) => {
  const { url, prefix: topic } = await testKafka();
  // Brokers refuse a time that is more than an hour ahead of theirs, and this topic one that is long ago as well.
  await topicWith(url, topic, 'message.timestamp.before.max.ms', '3600000');
  await using witness = await KafkaWitness.create(url, topic);
  const { transport } = await connected(url);
  vi.useFakeTimers({ toFake: ['Date'], now: Date.now() + hours * 3_600_000 });
  onTestFinished(() => void vi.useRealTimers());
  const stream = randomUUID();
  const batch = [messageTo(topic, { stream }), messageTo(topic, { stream }), messageTo(topic)];
  expect((await transport.publish(batch, never)).map(outcomeText)).toEqual(['confirmed', 'confirmed', 'confirmed']);
  await arrived(witness.seen, batch.length);
});

test('a batch that is too large for its topic is split, and only the message that is too large itself fails', async () => {
  const { url, prefix: topic } = await testKafka();
  await topicWith(url, topic, 'max.message.bytes', '20000');
  await using witness = await KafkaWitness.create(url, topic);
  const { transport } = await connected(url);
  const [a, b] = [randomUUID(), randomUUID()];
  const body = (bytes: number): Buffer => Buffer.from(JSON.stringify('x'.repeat(bytes)));
  const before = Array.from({ length: 8 }, () => messageTo(topic, { stream: a, body: body(5_000) }));
  const tooLarge = messageTo(topic, { stream: b, body: body(30_000) });
  const behindIt = messageTo(topic, { stream: b });
  const after = Array.from({ length: 8 }, () => messageTo(topic, { stream: a, body: body(5_000) }));
  const outcomes = await transport.publish([...before, tooLarge, behindIt, ...after], never);
  const confirmed = before.map(() => 'confirmed');
  expect(outcomes.map(outcomeText)).toEqual([...confirmed, 'failed MessageBodyTooLarge', 'notAttempted', ...confirmed]);
  await arrived(witness.seen, 16);
  expect(witness.seen.map(({ messageId }) => messageId)).toEqual(
    [...before, ...after].map(({ messageId }) => messageId),
  );
});

test('a missing topic that may not be created is a failure of its own messages, until it is there', async () => {
  const { url, prefix } = await testKafka();
  const [missing, present] = [`${prefix}missing`, `${prefix}present`];
  await createTopics(url, [present]);
  const { transport, log } = await connected(url, { declare: false });
  const batch = [messageTo(missing), messageTo(present)];
  expect((await transport.publish(batch, never)).map(outcomeText)).toEqual([
    'failed TransportNotReady, retry',
    'confirmed',
  ]);
  expect(log).toEqual([expect.stringMatching(/topic ".*missing" is missing, and the option declare is false/)]);
  await createTopics(url, [missing]);
  await waitFor(async () => (await transport.publish([messageTo(missing)], never))[0]?.kind === 'confirmed', {
    message: 'the topic to be found',
    timeoutMs: 10_000,
  });
});

test('a topic is created with the partitions that were asked for', async () => {
  const { url, prefix: topic } = await testKafka();
  const { transport } = await connected(url, { partitions: 4 });
  expect((await transport.publish([messageTo(topic)], never)).map(outcomeText)).toEqual(['confirmed']);
  const { topics } = await withKafkaAdmin(url, (admin) => admin.fetchTopicMetadata({ topics: [topic] }));
  expect(topics[0]?.partitions.length).toBe(4);
});

test('a destination that is no name of a topic fails for good and alone', async () => {
  const { url, prefix: topic } = await testKafka();
  const { transport } = await connected(url);
  const outcomes = await transport.publish([messageTo('no/topic'), messageTo(topic)], never);
  expect(outcomes.map(outcomeText)).toEqual(['failed ValidationError', 'confirmed']);
});

async function topicWith(url: string, topic: string, name: string, value: string): Promise<void> {
  const configEntries = [{ name, value }];
  await withKafkaAdmin(url, (admin) =>
    admin.createTopics({ topics: [{ topic, numPartitions: 1, configEntries }], waitForLeaders: false }),
  );
}

test('invalidRecord: a message without a key in a topic that is compacted by keys', async () => {
  const { url, prefix: topic } = await testKafka();
  await topicWith(url, topic, 'cleanup.policy', 'compact');
  const { transport } = await connected(url);
  const [stream, other] = [randomUUID(), randomUUID()];
  const [keyed, keyless] = [messageTo(topic, { stream }), messageTo(topic)];
  const outcomes = await transport.publish([keyed, keyless, messageTo(topic, { stream: other })], never);
  expect(outcomes.map(outcomeText)).toEqual(['confirmed', 'failed ValidationError', 'confirmed']);
});

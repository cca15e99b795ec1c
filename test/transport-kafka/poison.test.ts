import type { Delivery } from '@whizbang/core/transport';
import kafkajs from 'kafkajs';
import { expect, test } from 'vitest';
import { messageTo } from '../conformance/messages.js';
import { plainKafka } from '../fixtures/index.js';
import { testKafka } from '../fixtures/test-services.js';
import { arrived, idOf, never } from '../fixtures/watched-transport.js';
import { connected, request } from './connected.js';

test('records that nobody can read are handed over, and stop nothing', async () => {
  const { url, prefix: topic } = await testKafka();
  const { transport, log } = await connected(url, { partitions: 1 });
  const received: Delivery[] = [];
  const subscription = await transport.subscribe(
    request('shipping-' + topic, topic),
    async (batch) => void received.push(...batch),
  );
  await subscription.established;
  const producer = plainKafka(url).producer();
  await producer.connect();
  const send = (message: kafkajs.Message, compression = kafkajs.CompressionTypes.None): Promise<unknown> =>
    producer.send({ topic, messages: [message], compression });
  await send({ value: null });
  await send({
    key: Buffer.of(0xff),
    value: Buffer.of(0, 0xff),
    headers: { bytes: Buffer.of(0xfe), ce_id: Buffer.of(0xfd) },
  });
  await send({ value: 'text', headers: { constructor: 'a', twice: ['b', 'c'], ce_: '' } });
  knowSnappyOnce();
  await send({ value: 'compressed' }, kafkajs.CompressionTypes.Snappy);
  await producer.disconnect();
  const last = messageTo(topic);
  await transport.publish([last], never);
  await arrived(received, 5);
  const [empty, binary, plain, compressed, ours] = received;
  expect(empty).toMatchObject({ attributes: {}, headers: {}, body: Buffer.alloc(0) });
  expect(binary).toMatchObject({ attributes: { id: '/Q==' }, headers: { bytes: '/g==' }, body: Buffer.of(0, 0xff) });
  expect(plain).toMatchObject({ headers: { constructor: 'a', twice: 'c' } });
  expect(compressed?.headers).toEqual({ 'whizbang-undecodable': 'Snappy compression not implemented' });
  expect(compressed?.body.includes('compressed')).toBe(true);
  expect(ours && idOf(ours)).toBe(last.messageId);
  expect(log).toEqual([]);
});

/**
 * Snappy as far as one message of a sender needs it: literals only, in the frame of the Java library. It is unknown again as
 * soon as the message is compressed: the consumer, in the same process, reads it before the sender hears of it.
 */
function knowSnappyOnce(): void {
  const codecs = kafkajs.CompressionCodecs as Record<number, unknown>;
  const unknown = codecs[kafkajs.CompressionTypes.Snappy];
  codecs[kafkajs.CompressionTypes.Snappy] = () => ({
    compress: async ({ buffer }: { buffer: Buffer }) => {
      codecs[kafkajs.CompressionTypes.Snappy] = unknown;
      if (buffer.length > 60) throw new Error('longer than one literal without a length of its own');
      const block = Buffer.concat([Buffer.of(buffer.length, (buffer.length - 1) << 2), buffer]);
      const header = Buffer.from('82534e415050590000000001000000010000', 'hex');
      return Buffer.concat([header.subarray(0, 16), Buffer.of(0, 0, 0, block.length), block]);
    },
  });
}

import { type RabbitmqTransportOptions, createTransport } from '@whizbang/transport-rabbitmq';
import { type Channel, type ChannelModel, connect } from 'amqplib';
import { onTestFinished } from 'vitest';
import { type Watched, quickReconnect, watch, whenReady } from '../fixtures/watched-transport.js';

/** A transport that is closed at the end of the test. It is connecting, and need not have reached the broker. */
export function connecting(url: string, options: RabbitmqTransportOptions = {}): Promise<Watched> {
  return watch(createTransport(url, { ...quickReconnect, ...options }));
}

export function connected(url: string, options: RabbitmqTransportOptions = {}): Promise<Watched> {
  return whenReady(connecting(url, options));
}

/** A plain connection beside the transport; gone at the end of the test. */
export async function rawChannel(url: string): Promise<Channel> {
  const model: ChannelModel = await connect(url);
  model.on('error', () => undefined);
  onTestFinished(() => model.close().catch(() => undefined));
  const channel = await model.createChannel();
  channel.on('error', () => undefined);
  return channel;
}

/** The ids in a queue, in its order. Takes them out. */
export async function drain(channel: Channel, queue: string): Promise<string[]> {
  const ids: string[] = [];
  for (;;) {
    const message = await channel.get(queue, { noAck: true });
    if (message === false) return ids;
    ids.push(String(message.properties.messageId));
  }
}

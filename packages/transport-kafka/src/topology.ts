import { Backoff, pause } from '@whizbang/core/transport';
import { KafkaError, conditionOf, messageOf, protocolCode } from './errors.js';
import type { KafkaBroker } from './kafka-broker.js';
import type { KafkaClient, Leaders } from './kafka-client.js';
import type { KafkaSettings } from './options.js';

// A topic that was just created has no leaders for a moment, and other brokers do not know of it yet.
const patienceMs = 5000;
const topicName = /^[\w.-]{1,249}$/;
const alreadyExists = 36;
const notController = 41;

/** The partitions of a topic, which is created when it is missing and may be. */
export async function ensureTopic(
  client: KafkaClient,
  topic: string,
  settings: KafkaSettings,
  signal: AbortSignal,
): Promise<Leaders> {
  if (!topicName.test(topic) || topic === '.' || topic === '..') {
    throw new KafkaError(
      `a destination must be 1 to 249 letters, digits, dots, dashes or underscores, and "${topic.slice(0, 40)}" is not`,
      'invalidMessage',
    );
  }
  const deadline = performance.now() + patienceMs;
  const backoff = new Backoff(20, 500);
  let created = false;
  for (;;) {
    try {
      return await client.leaders(topic);
    } catch (error) {
      const condition = conditionOf(error);
      if (condition !== 'unknownTopic' && condition !== 'noLeader') throw error;
      if (condition === 'unknownTopic' && !created) {
        if (!settings.declare) {
          throw new KafkaError(`topic "${topic}" is missing, and the option declare is false`, condition, {
            cause: error,
          });
        }
        await createTopic(client, topic, settings);
        created = true;
      } else if (performance.now() > deadline || signal.aborted) throw error;
    }
    if (client.endedBy !== undefined) throw client.endedBy;
    await pause(backoff.next(), signal);
  }
}

async function createTopic(client: KafkaClient, topic: string, settings: KafkaSettings): Promise<void> {
  const { partitions: numPartitions, replicationFactor, requestTimeoutMs: timeout } = settings;
  const create = (broker: KafkaBroker): Promise<unknown> =>
    client.ask(broker, (asked) =>
      asked.createTopics({ topics: [{ topic, numPartitions, replicationFactor }], timeout }),
    );
  try {
    // Since KRaft every broker passes it on to the controller.
    await create(await client.anyBroker()).catch(async (error: unknown) => {
      if (protocolCode(error) !== notController) throw error;
      await create(await client.controller());
    });
  } catch (error) {
    if (protocolCode(error) === alreadyExists) return;
    throw new KafkaError(`topic "${topic}" cannot be created: ${messageOf(error)}`, conditionOf(error), {
      cause: error,
    });
  }
}

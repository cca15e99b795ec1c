import { type OperationOptions, ServiceBusAdministrationClient } from '@azure/service-bus';
import { type Logger, type SubscriptionRequest, silentLogger } from '@whizbang/core/transport';
import { createHash } from 'node:crypto';
import { classification } from './classification.js';
import { ServicebusError, textOf } from './errors.js';
import type { ServicebusSettings } from './options.js';

// Rejected deliveries are kept here and handed over again, so the broker's own counting only does harm. The most it takes.
const maxDeliveryCount = 2000;
// Long enough for a pause of the process, short enough that a session whose holder has vanished is free again soon.
const lockDuration = 'PT1M';
const requestTimeoutMs = 5_000;
// After the administration endpoint has refused us, or could not be reached, it is left alone for this long.
const leaveAloneMs = 60_000;
/** Lets messages through that name no type in their subject; the adapter looks at their attributes instead. */
const withoutSubject = 'whizbang-without-subject';
const maxRuleNameLength = 50;
const standardMessageBytes = 256 * 1024;
// Beside the body there are properties, which a batch of one carries twice.
const propertiesBytes = 2 * 64 * 1024;
const defaultPremiumKilobytes = 1024;

/** Creates topics, queues, subscriptions and their rules, where that is wanted and allowed. */
export class Topology {
  logger: Logger = silentLogger;
  readonly #settings: ServicebusSettings;
  readonly #stopping = new AbortController();
  readonly #requestOptions: OperationOptions = {
    abortSignal: this.#stopping.signal,
    requestOptions: { timeout: requestTimeoutMs },
  };
  #client: ServiceBusAdministrationClient | undefined;
  #leftAloneUntil = 0;
  #toldUnusable = false;

  constructor(settings: ServicebusSettings) {
    this.#settings = settings;
  }

  /** Gives up what is under way. */
  close(): void {
    this.#stopping.abort();
  }

  /**
   * A destination is missing: creates it.
   * @param missing The broker's answer.
   */
  async ensureDestination(name: string, missing: unknown): Promise<void> {
    const what = `${this.#settings.entity} "${name}"`;
    if (!this.#settings.declare) throw notThere(`${what} is missing, and the option declare is false`, missing);
    if (await this.#manage((client) => this.#createDestination(client, name))) return;
    throw notThere(`${what} is missing, and cannot be created with this connection string`, missing);
  }

  /**
   * The topic's subscription for a service, or its queue, with what it is to be like.
   * @returns whether it is known to be there; false when nothing could be created or looked at
   */
  async ensureSubscription(
    { service, ordered }: Pick<SubscriptionRequest, 'service' | 'ordered'>,
    { destination, messageTypes }: SubscriptionRequest['bindings'][number],
  ): Promise<boolean> {
    const { entity, declare, sessions } = this.#settings;
    if (!declare) return false;
    return this.#manage(async (client) => {
      await this.#createDestination(client, destination);
      if (entity === 'queue') return;
      await unlessThere(
        client.createSubscription(destination, service, {
          requiresSession: sessions && ordered,
          maxDeliveryCount,
          lockDuration,
          defaultRuleOptions: { name: withoutSubject, filter: { sqlExpression: 'sys.Label IS NULL' } },
          ...this.#requestOptions,
        }),
      );
      await addRules(client, destination, service, messageTypes, this.#requestOptions);
    });
  }

  async #createDestination(client: ServiceBusAdministrationClient, name: string): Promise<void> {
    const { entity, sessions, duplicateDetection } = this.#settings;
    const options = {
      requiresDuplicateDetection: duplicateDetection,
      ...messageSize(this.#settings),
      ...this.#requestOptions,
    };
    const creating =
      entity === 'topic'
        ? client.createTopic(name, options)
        : client.createQueue(name, { ...options, requiresSession: sessions, maxDeliveryCount, lockDuration });
    await unlessThere(creating);
  }

  /** @returns false when the administration endpoint is out of reach or does not let us. */
  async #manage(work: (client: ServiceBusAdministrationClient) => Promise<void>): Promise<boolean> {
    if (performance.now() < this.#leftAloneUntil) return false;
    this.#client ??= makeClient(this.#settings);
    try {
      await work(this.#client);
      return true;
    } catch (error) {
      if (!isUnusable(error)) throw error;
      this.#leftAloneUntil = performance.now() + leaveAloneMs;
      if (!this.#toldUnusable) {
        this.#toldUnusable = true;
        const sentence =
          'topics and subscriptions cannot be managed with this connection string, so what exists is used as it is';
        this.logger.info({ error: textOf(error) }, sentence);
      }
      return false;
    }
  }
}

/** Messages above the Standard tier's limit need a Premium namespace, where each entity has a limit of its own. */
function messageSize({ maxMessageBytes }: ServicebusSettings): { maxMessageSizeInKilobytes?: number } {
  if (maxMessageBytes === undefined || maxMessageBytes <= standardMessageBytes) return {};
  const kilobytes = Math.ceil((maxMessageBytes + propertiesBytes) / 1024);
  return { maxMessageSizeInKilobytes: Math.max(kilobytes, defaultPremiumKilobytes) };
}

function makeClient(settings: ServicebusSettings): ServiceBusAdministrationClient {
  const options = { retryOptions: { maxRetries: 0 } };
  const client =
    settings.connectionString === undefined
      ? new ServiceBusAdministrationClient(
          settings.host,
          settings.credential as ConstructorParameters<typeof ServiceBusAdministrationClient>[1],
          options,
        )
      : new ServiceBusAdministrationClient(settings.connectionString, options);
  const { administrationEndpoint } = settings;
  client.pipeline.addPolicy({
    name: 'whizbangEndpoint',
    sendRequest: (request, next) => {
      // There are few requests, far between; a socket kept open for the next one would outlive the transport.
      request.disableKeepAlive = true;
      if (administrationEndpoint !== undefined) {
        request.url = request.url.replace(/^https:\/\/[^/]*/, administrationEndpoint);
        request.allowInsecureConnection = administrationEndpoint.startsWith('http:');
      }
      return next(request);
    },
  });
  return client;
}

/** One rule per type, so that the broker passes on what is wanted. Rules are never removed: other instances may need them. */
async function addRules(
  client: ServiceBusAdministrationClient,
  topic: string,
  subscription: string,
  messageTypes: readonly string[],
  requestOptions: OperationOptions,
): Promise<void> {
  const names = new Set<string>();
  for await (const { name } of client.listRules(topic, subscription, requestOptions)) names.add(name);
  // Somebody else has made it, and decides what it lets through.
  if (!names.has(withoutSubject)) return;
  const missing = messageTypes.filter((type) => !names.has(ruleName(type)));
  await Promise.all(
    missing.map((type) =>
      unlessThere(client.createRule(topic, subscription, ruleName(type), { subject: type }, requestOptions)),
    ),
  );
}

/** Types may be longer, and have characters, that rules may not. */
function ruleName(type: string): string {
  if (type.length <= maxRuleNameLength && /^[A-Za-z0-9][\w.-]*$/.test(type) && type !== withoutSubject) return type;
  return `type-${createHash('sha256').update(type).digest('hex').slice(0, 32)}`;
}

async function unlessThere(creating: Promise<unknown>): Promise<void> {
  try {
    await creating;
  } catch (error) {
    const { code, statusCode } = error as { code?: unknown; statusCode?: unknown };
    if (code !== 'MessageEntityAlreadyExistsError' && statusCode !== 409) throw error;
  }
}

/** Not an answer about the entity, but about us or the endpoint. */
function isUnusable(error: unknown): boolean {
  const { code, statusCode, name } = error as { code?: unknown; statusCode?: unknown; name?: unknown };
  if (statusCode === 401 || statusCode === 403) return true;
  return statusCode === undefined && (name === 'RestError' || typeof code === 'string');
}

function notThere(sentence: string, cause: unknown): ServicebusError {
  return new ServicebusError(sentence, classification.entityNotFound, { cause });
}

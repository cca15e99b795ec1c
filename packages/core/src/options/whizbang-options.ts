import type pg from 'pg';
import { z } from 'zod';
import type { Logger } from '../contract/logger.js';
import { type MessageDefinition, problemOfName } from '../contract/message-definition.js';
import type { DeadLetterRecoveryPolicy } from '../contract/dead-letter.js';
import type { Transport } from '../contract/transport.js';
import { defaultSchema, problemOfSchemaName } from '../database/schema-name.js';
import { ConfigurationError } from '../errors/whizbang-error.js';
import { maskSecrets } from '../errors/mask-secrets.js';

/** What {@link createWhizbang} takes. Times are in the unit that the name says. */
export interface WhizbangOptions {
  /** Name of this service: queue, consumer group or subscription. Letters, digits, `.`, `_`, `-`; 50 characters at the most. */
  readonly service: string;
  /** PostgreSQL URL, or a `pg.Pool` of yours, which is used and never closed. */
  readonly database: string | pg.Pool;
  /**
   * A URL that reaches PostgreSQL directly, for LISTEN, when `database` goes through a pooler that does not keep sessions.
   * Default: the URL of `database`.
   */
  readonly listenDatabase?: string;
  /** Broker connection string (`amqp://`, `kafka://`, `Endpoint=sb://`, `memory:`), or a transport object. */
  readonly broker: string | Transport;
  /** Options of the transport's own, for example `{ queueType: 'classic' }`; see its README. */
  readonly brokerOptions?: Readonly<Record<string, unknown>>;
  /** The messages that this service publishes or handles. */
  readonly messages?: readonly MessageDefinition[];
  /** Database schema of the tables. Default `whizbang`. */
  readonly schema?: string;
  /** Any pino-shaped logger. Default: silence. */
  readonly logger?: Logger;
  /** Identifies the build that dead letters are tagged with. Default: the library's version. */
  readonly generation?: string;
  /**
   * How long a claimed row stays this instance's without renewal, in seconds. A process that dies leaves its rows to the
   * others after this time. Default 60.
   */
  readonly leaseSeconds?: number;
  readonly failures?: FailureOptions;
  readonly deadLetters?: DeadLetterRecoveryOptions;
  readonly maintenance?: MaintenanceOptions;
  readonly publisher?: PublisherOptions;
  readonly receiver?: ReceiverOptions;
  readonly dispatcher?: DispatcherOptions;
  readonly wakeups?: WakeupOptions;
  /** How long `stop()` lets work in hand finish before it aborts it, in milliseconds. Default 10,000. */
  readonly stopTimeoutMs?: number;
}

export interface FailureOptions {
  /** The first delay is twice this, in seconds: `baseSeconds × min(2^min(attempts, 10), maxFactor)`. Default 30. */
  readonly baseSeconds?: number;
  /** Default 10, which with 30 seconds is five minutes. */
  readonly maxFactor?: number;
  /** Spreads the delays by this share, 0.2 for ±10 %. Default 0. */
  readonly jitter?: number;
  /** Send messages that can never succeed (too large, invalid, unreadable) to the dead letters at once. Default true. */
  readonly deadLetterPermanent?: boolean;
  /** A pause for a destination or message type that keeps failing in one way. */
  readonly breaker?: {
    /** Default true. */
    readonly enabled?: boolean;
    /** Failures in a row, of one reason. Default 5. */
    readonly failureThreshold?: number;
    /** Milliseconds. Default 3,000; doubled at every trial that fails. */
    readonly initialCooldownMs?: number;
    /** Milliseconds. Default 300,000. */
    readonly maxCooldownMs?: number;
  };
}

export interface DeadLetterRecoveryOptions {
  /** False: dead letters stay until an operator retries them; and then nobody does. Default true. */
  readonly enabled?: boolean;
  /** How often the recovery worker looks when nothing wakes it. Default 10. */
  readonly scanIntervalMinutes?: number;
  /** Rows in one look. Default 200. */
  readonly scanBatchSize?: number;
  /** A new `generation` gives every dead letter one more try. Default true. */
  readonly enableGenerationReplay?: boolean;
  /** Decides what comes back, when and how often. Default: `DefaultDeadLetterRecoveryPolicy`. */
  readonly policy?: DeadLetterRecoveryPolicy;
}

export interface MaintenanceOptions {
  /** Default true. */
  readonly enabled?: boolean;
  /** Default 10. */
  readonly intervalMinutes?: number;
  /** How long received ids are remembered. Default 30. */
  readonly dedupRetentionDays?: number;
  /** How long rows kept by `retainCompleted` are kept. Default 7. */
  readonly completedRetentionDays?: number;
  /** Warn of rows that are claimed and never drained. Default true. */
  readonly stuckRowSentinelEnabled?: boolean;
  /** Default 10, which is the cap: what is past it should have been dead-lettered. Below 5 the index cannot help. */
  readonly stuckRowSentinelMaxAttempts?: number;
  /** Warnings per table and cycle, at the most. Default 50. */
  readonly stuckRowSentinelLimit?: number;
}

export interface PublisherOptions {
  /** Default true. False: this process stores messages and leaves publishing to others. */
  readonly enabled?: boolean;
  /** Rows in one batch, at the most. Default 500. */
  readonly batchSize?: number;
  /** Bytes of bodies in one batch, about; one message at the least. Default 4 MiB. */
  readonly batchBytes?: number;
  /** Tries before a message is dead-lettered; `null`: for ever. Default 10. */
  readonly maxOutboxAttempts?: number | null;
  /** Keep published rows, stamped with `published_at`, instead of deleting them. Default false. */
  readonly retainCompleted?: boolean;
}

export interface ReceiverOptions {
  /** Default: true when a handler is registered. */
  readonly enabled?: boolean;
  /** True: several consumers receive at once and the order of streams is given up. Default false. */
  readonly parallel?: boolean;
  /** Deliveries stored in one transaction, at the most. Default 200. */
  readonly batchSize?: number;
  /** Deliveries that may be unacknowledged at a time. Default 500. */
  readonly prefetch?: number;
  /** What happens to a message that no handler is registered for. Default `deadLetter`; `discard` counts it and drops it. */
  readonly unhandled?: 'deadLetter' | 'discard';
}

export interface DispatcherOptions {
  /** Default: true when a handler is registered. */
  readonly enabled?: boolean;
  /** Handlers that run at a time, over all streams. Each holds one database connection. Default 8. */
  readonly concurrency?: number;
  /** Rows claimed ahead, at the most. Default 200. */
  readonly batchSize?: number;
  /** Bytes of bodies claimed at a time, about. Default 4 MiB. */
  readonly batchBytes?: number;
  /** Tries before a message is dead-lettered; `null`: for ever. Default 10. */
  readonly maxInboxAttempts?: number | null;
  /** Keep handled rows, stamped with `processed_at`. Default false. */
  readonly retainCompleted?: boolean;
  /** How often the lease of running work is renewed before its signal aborts. Default 30, ten minutes with the default lease. */
  readonly maxLeaseRenewals?: number;
}

export interface WakeupOptions {
  /** LISTEN for messages instead of polling alone. Default true. */
  readonly listen?: boolean;
  /** The longest sleep of a worker whose doorbell works, in milliseconds. Default 10,000. */
  readonly safetyPollMs?: number;
  /** The pause of a worker whose doorbell does not work, in milliseconds. Default 250. */
  readonly fallbackPollMs?: number;
}

const count = (fallback: number, max = 100_000) => z.number().int().min(1).max(max).default(fallback);
const milliseconds = (fallback: number) => z.number().int().min(1).max(86_400_000).default(fallback);
const attempts = z.number().int().min(1).max(1_000_000).nullable().default(10);
const minutes = z.number().positive().max(10_080).default(10);
const isFunction = (value: unknown) => typeof value === 'function';
const named = (problemOf: (name: string) => string | undefined) =>
  z.string().superRefine((name, context) => {
    const problem = problemOf(name);
    if (problem !== undefined) {
      context.addIssue({ code: 'custom', message: problem });
    }
  });
const shape = <Value>(members: readonly string[], sentence: string) =>
  z.custom<Value>(
    (value) =>
      typeof value === 'object' &&
      value !== null &&
      members.every((name) => isFunction((value as Record<string, unknown>)[name])),
    sentence,
  );

const optionsSchema = z.strictObject({
  service: named((name) => problemOfName(name, 50)),
  database: z.union([
    z.string().regex(/^postgres(ql)?:\/\//, 'must begin with postgres:// or postgresql://'),
    shape<pg.Pool>(['connect', 'query', 'on'], 'must be a PostgreSQL URL or a pg.Pool'),
  ]),
  listenDatabase: z
    .string()
    .regex(/^postgres(ql)?:\/\//, 'must begin with postgres:// or postgresql://')
    .optional(),
  broker: z.union([
    z.string().min(1, 'must be a connection string'),
    shape<Transport>(
      ['connect', 'ready', 'publish', 'subscribe', 'close'],
      'must be a connection string or a transport',
    ),
  ]),
  brokerOptions: z.record(z.string(), z.unknown()).optional(),
  messages: z
    .array(
      z.custom<MessageDefinition>(
        (value) => isFunction((value as MessageDefinition | null)?.schema?.['~standard']?.validate),
        'must come from defineMessage',
      ),
    )
    .default([]),
  schema: named(problemOfSchemaName).default(defaultSchema),
  logger: shape<Logger>(['debug', 'info', 'warn', 'error'], 'must have debug, info, warn and error').optional(),
  generation: z.string().min(1).max(200).optional(),
  leaseSeconds: z.number().min(1).max(3600).default(60),
  failures: z
    .strictObject({
      baseSeconds: z.number().positive().max(86_400).default(30),
      maxFactor: z.number().min(1).max(1024).default(10),
      jitter: z.number().min(0).max(1).default(0),
      deadLetterPermanent: z.boolean().default(true),
      breaker: z
        .strictObject({
          enabled: z.boolean().default(true),
          failureThreshold: count(5),
          initialCooldownMs: milliseconds(3_000),
          maxCooldownMs: milliseconds(300_000),
        })
        .prefault({}),
    })
    .prefault({}),
  deadLetters: z
    .strictObject({
      enabled: z.boolean().default(true),
      scanIntervalMinutes: minutes,
      scanBatchSize: count(200, 10_000),
      enableGenerationReplay: z.boolean().default(true),
      policy: shape<DeadLetterRecoveryPolicy>(
        ['getPolicy', 'getStreamMode', 'shouldRecover'],
        'must have getPolicy, getStreamMode and shouldRecover',
      ).optional(),
    })
    .prefault({}),
  maintenance: z
    .strictObject({
      enabled: z.boolean().default(true),
      intervalMinutes: minutes,
      dedupRetentionDays: z.number().positive().max(36_500).default(30),
      completedRetentionDays: z.number().positive().max(36_500).default(7),
      stuckRowSentinelEnabled: z.boolean().default(true),
      stuckRowSentinelMaxAttempts: z.number().int().min(0).max(1_000_000).default(10),
      stuckRowSentinelLimit: count(50, 10_000),
    })
    .prefault({}),
  publisher: z
    .strictObject({
      enabled: z.boolean().default(true),
      batchSize: count(500, 10_000),
      batchBytes: count(4 * 1024 * 1024, 1024 ** 3),
      maxOutboxAttempts: attempts,
      retainCompleted: z.boolean().default(false),
    })
    .prefault({}),
  receiver: z
    .strictObject({
      enabled: z.boolean().optional(),
      parallel: z.boolean().default(false),
      batchSize: count(200, 10_000),
      prefetch: count(500, 65_535),
      unhandled: z.enum(['deadLetter', 'discard']).default('deadLetter'),
    })
    .prefault({}),
  dispatcher: z
    .strictObject({
      enabled: z.boolean().optional(),
      concurrency: count(8, 1000),
      batchSize: count(200, 10_000),
      batchBytes: count(4 * 1024 * 1024, 1024 ** 3),
      maxInboxAttempts: attempts,
      retainCompleted: z.boolean().default(false),
      maxLeaseRenewals: z.number().int().min(0).max(100_000).default(30),
    })
    .prefault({}),
  wakeups: z
    .strictObject({
      listen: z.boolean().default(true),
      safetyPollMs: milliseconds(10_000),
      fallbackPollMs: milliseconds(250),
    })
    .prefault({}),
  stopTimeoutMs: milliseconds(10_000),
});

export type ResolvedOptions = z.output<typeof optionsSchema>;

/**
 * Checks the options and fills in the defaults.
 *
 * @throws ConfigurationError that lists every violation with its path
 */
export function resolveOptions(options: WhizbangOptions): ResolvedOptions {
  const result = optionsSchema.safeParse(options);
  const problems = result.success ? [] : result.error.issues.flatMap(describeIssue);
  const types = new Map<string, MessageDefinition>();
  for (const message of result.data?.messages ?? []) {
    const same = types.get(message.type);
    if (same !== undefined && same !== message) {
      problems.push(`messages: '${message.type}' is defined twice`);
    }
    types.set(message.type, message);
  }
  if (!result.success || problems.length > 0) {
    throw new ConfigurationError(
      `The options of createWhizbang have ${problems.length} problem(s):\n- ${problems.join('\n- ')}`,
    );
  }
  return result.data;
}

function describeIssue(issue: z.core.$ZodIssue): string[] {
  const path = issue.path.join('.') || 'options';
  if (issue.code === 'unrecognized_keys') {
    return issue.keys.map((key) => `${[...issue.path, key].join('.')}: unknown option`);
  }
  if (issue.code === 'invalid_union') {
    // The branches of a union repeat themselves; their own sentences say more than zod's "Invalid input".
    const sentences = new Set(issue.errors.flat().map((inner) => inner.message));
    return [`${path}: ${maskSecrets([...sentences].join(', or '))}`];
  }
  return [`${path}: ${maskSecrets(issue.message)}`];
}

import { z } from 'zod';
import { ConfigurationError } from '../errors/whizbang-error.js';

/** Options of `memory:` transports, in code or in the connection string: `memory:orders?mandatory=false`. */
export interface InProcessOptions {
  /** Report a message that no service receives as failed, instead of dropping it. Default true. */
  readonly mandatory?: boolean;
  /** Create destinations and queues that are missing. Default true. */
  readonly declare?: boolean;
  /** The largest body in bytes. Default: no limit. */
  readonly maxMessageBytes?: number;
}

const flag = z.union([z.boolean(), z.stringbool({ truthy: ['true'], falsy: ['false'] })]);

const optionsSchema = z.strictObject({
  mandatory: flag.default(true),
  declare: flag.default(true),
  maxMessageBytes: z.coerce.number().int().positive().nullable().default(null),
});

export interface ResolvedInProcessOptions extends z.infer<typeof optionsSchema> {
  readonly broker: string;
}

/** @throws ConfigurationError that names everything wrong with the connection string and the options. */
export function resolveInProcessOptions(
  connectionString: string,
  options: Readonly<Record<string, unknown>>,
): ResolvedInProcessOptions {
  const form = /^memory:(?<broker>[\w.-]*)(?:\?(?<query>.*))?$/.exec(connectionString);
  if (form === null) {
    throw new ConfigurationError(
      'the connection string of the in-process transport is "memory:" or "memory:name" (letters, digits, ".", "_", "-"), ' +
        'with options after "?"',
    );
  }
  const fromString = Object.fromEntries(new URLSearchParams(form.groups?.['query']));
  const resolved = optionsSchema.safeParse({ ...fromString, ...options });
  if (!resolved.success) {
    const violations = resolved.error.issues.map(({ path, message }) =>
      [path.join('.'), message].filter(Boolean).join(': '),
    );
    throw new ConfigurationError(`options of the in-process transport: ${violations.join('; ')}`);
  }
  return { broker: form.groups?.['broker'] ?? '', ...resolved.data };
}

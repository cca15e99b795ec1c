import { createHash } from 'node:crypto';
import { ConfigurationError } from '../errors/whizbang-error.js';

export const defaultSchema = 'whizbang';

// Takes the place of `$$` around function bodies, which a schema's name may contain.
const bodyQuote = '$whizbang_body$';

/** A schema's name, and the ways in which statements write it. */
export interface SchemaName {
  readonly name: string;
  /** The name as a quoted identifier, with the dot: `"My-App".` */
  readonly prefix: string;
  readonly literal: string;
}

/** Says what is wrong with a schema's name, or returns `undefined`. */
export function problemOfSchemaName(name: string): string | undefined {
  // A line break would end the comment of a statement in which the name stands.
  return name === '' || /\p{Cc}/u.test(name) || Buffer.byteLength(name) > 63 || name.includes(bodyQuote)
    ? 'must have 1 to 63 bytes and no control characters'
    : undefined;
}

export function schemaName(name: string): SchemaName {
  const problem = problemOfSchemaName(name);
  if (problem !== undefined) {
    throw new ConfigurationError(`Schema name ${JSON.stringify(name)} ${problem}.`);
  }
  return {
    name,
    prefix: `"${name.replaceAll('"', '""')}".`,
    literal: quoteLiteral(name),
  };
}

function quoteLiteral(text: string): string {
  const quoted = `'${text.replaceAll("'", "''").replaceAll('\\', '\\\\')}'`;
  return text.includes('\\') ? `E${quoted}` : quoted;
}

/**
 * Puts the schema's name into a statement of `sql/`, which is written for the schema `whizbang`: the qualifier
 * `whizbang.` and the literal `'whizbang'` stand for it.
 */
export function inSchema(sql: string, schema: SchemaName): string {
  const written: Record<string, string> = { $$: bodyQuote, 'whizbang.': schema.prefix, "'whizbang'": schema.literal };
  // In one pass: the name may itself contain what is looked for.
  return sql.replaceAll(/\$\$|\bwhizbang\.|'whizbang'/g, (found) => written[found] ?? found);
}

/** The channel on which a schema's workers are woken; the SQL function `wake_channel` computes the same. */
export function wakeChannel(kind: string, schema: SchemaName): string {
  return `wh_${kind}_${createHash('md5').update(schema.name).digest('hex').slice(0, 16)}`;
}

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

export function schemaName(name: string): SchemaName {
  if (name === '' || name.includes('\0') || Buffer.byteLength(name) > 63 || name.includes(bodyQuote)) {
    throw new ConfigurationError(`Schema name ${JSON.stringify(name)} must have 1 to 63 bytes and no NUL character.`);
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
  return sql
    .replaceAll('$$', () => bodyQuote)
    .replaceAll(/\bwhizbang\./g, () => schema.prefix)
    .replaceAll("'whizbang'", () => schema.literal);
}

/** The channel on which a schema's workers are woken; the SQL function `wake_channel` computes the same. */
export function wakeChannel(kind: string, schema: SchemaName): string {
  return `wh_${kind}_${createHash('md5').update(schema.name).digest('hex').slice(0, 16)}`;
}

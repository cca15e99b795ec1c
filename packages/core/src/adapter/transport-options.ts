/** Reads the value of an option, as given in code or as text in a connection string; throws the sentence that says what it must be. */
export type OptionReader<T> = (value: unknown) => T;

/** Every option of a transport once: how it is read, and its default. */
export type OptionTable<Options> = {
  readonly [name in keyof Options]-?: readonly [reader: OptionReader<unknown>, byDefault: unknown];
};

/** Where options may stand. What is given in code wins. */
export interface GivenOptions {
  readonly connectionString: readonly (readonly [name: string, value: string])[];
  readonly code: Readonly<Record<string, unknown>>;
}

/**
 * Every option of the table, as given or by default. What is wrong is added to `violations`, each with where it stands; of a
 * wrong value nothing is said.
 */
export function readOptions<Options>(
  table: OptionTable<Options>,
  { connectionString, code }: GivenOptions,
  violations: string[],
): Record<keyof Options, unknown> {
  const entries: [string, readonly [OptionReader<unknown>, unknown]][] = Object.entries(table);
  const readers = new Map(entries.map(([name, [reader]]) => [name, reader]));
  const resolved: Record<string, unknown> = Object.fromEntries(
    entries.map(([name, [, byDefault]]) => [name, byDefault]),
  );
  // A password with a "?" that was not encoded: what stands behind it is no option, and must not be told.
  const holdsLogin = connectionString.some(([name, value]) => name.includes('@') || value.includes('@'));
  if (holdsLogin) {
    violations.push('connection string: has an "@" behind a "?"; in a password they must be written %40 and %3F');
  }
  const given = [
    ...(holdsLogin ? [] : connectionString).map(([name, value]) => ({
      name,
      value,
      path: `connection string: ${name}`,
    })),
    ...Object.entries(code).map(([name, value]) => ({ name, value, path: name })),
  ];
  for (const { name, value, path } of given) {
    if (value === undefined) continue;
    const reader = readers.get(name);
    if (reader === undefined) {
      violations.push(`${path}: there is no such option; there are ${[...readers.keys()].join(', ')}`);
      continue;
    }
    try {
      resolved[name] = reader(value);
    } catch (error) {
      violations.push(`${path}: ${(error as Error).message}`);
    }
  }
  return resolved as Record<keyof Options, unknown>;
}

export const flag: OptionReader<boolean> = (value) => {
  const text = typeof value === 'string' ? value.toLowerCase() : value;
  if (text === true || text === 'true') return true;
  if (text === false || text === 'false') return false;
  throw new Error('must be true or false');
};

export const wholeNumber =
  (least: number, most: number): OptionReader<number> =>
  (value) => {
    const number = typeof value === 'string' && /^\d{1,15}$/.test(value) ? Number(value) : value;
    if (typeof number === 'number' && Number.isInteger(number) && number >= least && number <= most) return number;
    throw new Error(`must be a whole number from ${least} to ${most}`);
  };

export const oneOf =
  <const T extends string>(...names: readonly T[]): OptionReader<T> =>
  (value) => {
    const found = names.find((name) => name === value);
    if (found !== undefined) return found;
    throw new Error(`must be ${names.map((name) => `"${name}"`).join(' or ')}`);
  };

/** Certificates of an encrypted connection, as of `tls.connect`. */
export interface TlsOptions {
  readonly ca?: string | Buffer;
  readonly cert?: string | Buffer;
  readonly key?: string | Buffer;
  readonly passphrase?: string;
  /** The name that the broker's certificate must carry. Default: the host that is connected to. */
  readonly servername?: string;
  /** False accepts any certificate. Default true. */
  readonly rejectUnauthorized?: boolean;
}

export const tlsOptions: OptionReader<TlsOptions> = (value) => {
  if (typeof value !== 'object' || value === null) throw new Error('must be an object, given in code');
  const known = ['ca', 'cert', 'key', 'passphrase', 'servername', 'rejectUnauthorized'];
  const unknown = Object.keys(value).filter((name) => !known.includes(name));
  if (unknown.length > 0) throw new Error(`has no option ${unknown.join(', ')}; there are ${known.join(', ')}`);
  return value;
};

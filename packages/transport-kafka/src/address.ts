/** Where the brokers are, and who we are there. */
export interface BrokerAddress {
  /** `host:port`, the brokers to ask first. */
  readonly brokers: readonly string[];
  readonly secure: boolean;
  readonly username: string | undefined;
  readonly password: string;
}

/**
 * Takes `kafka://user:password@host:9092,host2:9092?…` apart. It is no URL to Node, which knows one host only. What is wrong
 * is added to `violations`, in words that hold no part of it: a password with an unescaped `@` or `#` may be anywhere.
 */
export function parseAddress(
  connectionString: string,
  violations: string[],
): { readonly address: BrokerAddress | undefined; readonly query: readonly (readonly [string, string])[] } {
  const broken = (violation: string): { address: undefined; query: [] } => {
    violations.push(`connection string: ${violation}`);
    return { address: undefined, query: [] };
  };
  const scheme = /^(kafkas?):\/\//.exec(connectionString)?.[1];
  if (scheme === undefined)
    return broken('must begin with kafka:// or kafkas://, such as kafka://host:9092,host2:9092');
  if (connectionString.includes('#')) return broken('has a "#"; in a password it must be written %23');
  const [place = '', ...queries] = connectionString.slice(`${scheme}://`.length).split('?');
  const query = [...new URLSearchParams(queries.join('?'))];
  const at = place.lastIndexOf('@');
  const hosts = place.slice(at + 1).replace(/\/$/, '');
  if (hosts === '') return { ...broken('has no host'), query };
  const brokers: string[] = [];
  for (const [index, host] of hosts.split(',').entries()) {
    const broker = readBroker(host);
    if (broker !== undefined) brokers.push(broker);
    else
      violations.push(
        `connection string: host ${index + 1} is not host or host:port (IPv6 addresses are not supported)`,
      );
  }
  const [name, password = ''] = at === -1 ? [undefined] : splitOnce(place.slice(0, at), ':');
  if (`${name ?? ''}${password}`.includes('@')) {
    return { ...broken('has an "@" in user name or password; write it %40'), query };
  }
  try {
    const address: BrokerAddress = {
      brokers,
      secure: scheme === 'kafkas',
      username: name === undefined || name === '' ? undefined : decodeURIComponent(name),
      password: decodeURIComponent(password),
    };
    return { address, query };
  } catch {
    return { ...broken('user name or password has a "%" that begins no escape; write it %25'), query };
  }
}

function readBroker(text: string): string | undefined {
  const [, host, port = '9092'] = /^([\w.-]+)(?::(\d{1,5}))?$/.exec(text) ?? [];
  if (host === undefined || Number(port) < 1 || Number(port) > 65_535) return undefined;
  return `${host}:${port}`;
}

function splitOnce(text: string, separator: string): [string, string] {
  const at = text.indexOf(separator);
  return at === -1 ? [text, ''] : [text.slice(0, at), text.slice(at + 1)];
}

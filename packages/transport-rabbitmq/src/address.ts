/** Where the broker is, and who we are there. */
export interface BrokerAddress {
  readonly protocol: 'amqp' | 'amqps';
  readonly hostname: string;
  readonly port: number;
  readonly username: string;
  readonly password: string;
  readonly vhost: string;
}

/**
 * Takes an `amqp:` or `amqps:` URL apart. What is wrong is added to `violations`, in words that hold no part of the URL:
 * a password with an unescaped `@` or `#` may be anywhere in it.
 */
export function parseAddress(
  connectionString: string,
  violations: string[],
): { readonly address: BrokerAddress | undefined; readonly query: readonly (readonly [string, string])[] } {
  const broken = (violation: string): { address: undefined; query: [] } => {
    violations.push(`connection string: ${violation}`);
    return { address: undefined, query: [] };
  };
  let url: URL;
  try {
    url = new URL(connectionString);
  } catch {
    return broken(
      'is not a URL such as amqp://user:password@host:5672/vhost; ' +
        'characters such as @ : / ? # % in a user name or password must be percent-encoded',
    );
  }
  if (url.protocol !== 'amqp:' && url.protocol !== 'amqps:') return broken('must begin with amqp:// or amqps://');
  const query = [...url.searchParams];
  if (url.hostname === '') return { ...broken('has no host'), query };
  if (url.hash !== '') return { ...broken('has a "#"; in a password it must be written %23'), query };
  try {
    const named = url.username !== '' || url.password !== '';
    const address: BrokerAddress = {
      protocol: url.protocol === 'amqp:' ? 'amqp' : 'amqps',
      hostname: decodeURIComponent(url.hostname.replace(/^\[|\]$/g, '')),
      port: url.port === '' ? (url.protocol === 'amqp:' ? 5672 : 5671) : Number(url.port),
      // The broker's own default account, which it accepts from the same machine only.
      username: named ? decodeURIComponent(url.username) : 'guest',
      password: named ? decodeURIComponent(url.password) : 'guest',
      vhost: decodeURIComponent(url.pathname.slice(1)) || '/',
    };
    return { address, query };
  } catch {
    return { ...broken('user name, password or vhost has a "%" that begins no escape; write it %25'), query };
  }
}

import { createRequire } from 'node:module';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import type { Transport, TransportFactory } from '../contract/transport.js';
import { transportContractVersion } from '../contract/transport.js';
import { maskSecrets } from '../errors/mask-secrets.js';
import { ConfigurationError, TransportMissingError } from '../errors/whizbang-error.js';

/** Which package serves a scheme. Adapters are imported on first use, so that nobody loads a client they do not use. */
const packages = new Map<string, string>([
  ['amqp', '@whizbang/transport-rabbitmq'],
  ['amqps', '@whizbang/transport-rabbitmq'],
  ['kafka', '@whizbang/transport-kafka'],
  ['kafkas', '@whizbang/transport-kafka'],
  ['sb', '@whizbang/transport-servicebus'],
]);
const factories = new Map<string, TransportFactory>();

/**
 * Makes a scheme known, for adapters that are not Whizbang's own: `registerTransport('nats', createTransport)`.
 *
 * @param scheme - what stands before `:` in the connection string, in lower case
 * @throws ConfigurationError when the scheme is taken or is no scheme
 */
export function registerTransport(scheme: string, factory: TransportFactory): void {
  if (!/^[a-z][a-z0-9+.-]*$/.test(scheme)) {
    throw new ConfigurationError(`'${scheme}' is no scheme: lower-case letters, digits, '+', '.' and '-' only.`);
  }
  if (packages.has(scheme) || factories.has(scheme)) {
    throw new ConfigurationError(`The scheme '${scheme}' has a transport already.`);
  }
  factories.set(scheme, factory);
}

/** The scheme of a connection string; Service Bus strings begin with `Endpoint=sb://` instead. */
function schemeOf(connectionString: string): string | undefined {
  if (/(^|;)\s*Endpoint\s*=\s*sb:\/\//i.test(connectionString)) {
    return 'sb';
  }
  return /^([a-z][a-z0-9+.-]*):/i.exec(connectionString)?.[1]?.toLowerCase();
}

/**
 * Finds the transport for a connection string.
 *
 * @throws TransportMissingError naming the package to install, or the schemes that are known
 * @throws ConfigurationError when the adapter refuses the string or its options, or is built for another core
 */
export async function createTransportFor(
  connectionString: string,
  options: Readonly<Record<string, unknown>> | undefined,
): Promise<Transport> {
  const scheme = schemeOf(connectionString);
  const factory = scheme === undefined ? undefined : await factoryFor(scheme);
  if (factory === undefined) {
    const known = [...new Set(['memory', ...packages.keys(), ...factories.keys()])].map((name) =>
      name === 'sb' ? 'Endpoint=sb://' : `${name}:`,
    );
    throw new TransportMissingError(
      `No transport for the broker '${maskUrl(connectionString).slice(0, 60)}': the connection string must begin with one of ${known.join(', ')}.`,
    );
  }
  return checkContract(factory(connectionString, options));
}

// Here the whole text is one address. In a text where one stands among words, a blank ends it; a password may have blanks.
function maskUrl(url: string): string {
  return maskSecrets(url.replace(/(:\/\/[^:@]*):.*@/s, '$1:***@'));
}

export function checkContract(transport: Transport): Transport {
  // A number to the compiler, but an adapter built for another core brings its own.
  const version: number = transport.contractVersion;
  if (version !== transportContractVersion) {
    throw new ConfigurationError(
      `The transport '${transport.name}' speaks version ${version} of the transport contract; this core speaks another. Install matching versions.`,
    );
  }
  return transport;
}

async function factoryFor(scheme: string): Promise<TransportFactory | undefined> {
  if (scheme === 'memory') {
    const { createInProcessTransport } = await import('../testing/in-process-transport.js');
    return createInProcessTransport;
  }
  const packageName = packages.get(scheme);
  return packageName === undefined ? factories.get(scheme) : importAdapter(packageName, scheme);
}

async function importAdapter(packageName: string, scheme: string): Promise<TransportFactory> {
  let adapter: { createTransport?: TransportFactory };
  try {
    adapter = (await import(locateAdapter(packageName))) as typeof adapter;
  } catch (cause) {
    const missing =
      (cause as NodeJS.ErrnoException).code === 'ERR_MODULE_NOT_FOUND' &&
      (cause as Error).message.includes(packageName);
    throw new TransportMissingError(
      missing
        ? `The broker URL begins with ${scheme}:, which needs the package ${packageName}. Install it: npm install ${packageName}`
        : `The package ${packageName} cannot be loaded: ${(cause as Error).message}`,
      { cause },
    );
  }
  if (typeof adapter.createTransport !== 'function') {
    throw new TransportMissingError(
      `The package ${packageName} exports no createTransport; install a version that matches this core.`,
    );
  }
  return adapter.createTransport;
}

/**
 * The application installs the adapter, and strict package managers (pnpm, workspaces) do not show it to core: it is looked
 * for from the program's main file and from the working directory before from here.
 */
function locateAdapter(packageName: string): string {
  for (const from of [process.argv[1], join(process.cwd(), 'package.json')]) {
    if (from !== undefined && from !== '') {
      try {
        return pathToFileURL(createRequire(pathToFileURL(from)).resolve(packageName)).href;
      } catch {
        // Not visible from there.
      }
    }
  }
  return packageName;
}

import { silentLogger } from './contract/logger.js';
import { openDatabase } from './database/pool.js';
import { schemaName } from './database/schema-name.js';
import { type WhizbangOptions, resolveOptions } from './options/whizbang-options.js';
import { carefulLogger } from './runtime/careful-logger.js';
import { checkContract, createTransportFor } from './transports/transport-registry.js';
import { Whizbang } from './whizbang.js';

/**
 * Puts a service together. Nothing is connected before `start()`, `publish` or `migrate()`.
 *
 * @throws ConfigurationError that lists everything wrong with the options
 * @throws TransportMissingError naming the package to install for the broker's scheme
 */
export async function createWhizbang(options: WhizbangOptions): Promise<Whizbang> {
  const resolved = resolveOptions(options);
  const schema = schemaName(resolved.schema);
  const logger = carefulLogger(resolved.logger ?? silentLogger);
  const transport =
    typeof resolved.broker === 'string'
      ? await createTransportFor(resolved.broker, resolved.brokerOptions)
      : checkContract(resolved.broker);
  const database = openDatabase(resolved.database, {
    applicationName: `whizbang-${resolved.service}`,
    // Handlers, the exchanges of the workers, and some for publishNow and the doorbells.
    maxConnections: resolved.dispatcher.concurrency + 6,
    logger,
  });
  return new Whizbang({ options: resolved, database, schema, transport, logger });
}

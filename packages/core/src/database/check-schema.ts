import type pg from 'pg';
import type { Logger } from '../contract/logger.js';
import { SchemaError } from '../errors/whizbang-error.js';
import { libraryVersion } from '../options/library-version.js';
import { explainDatabaseError } from './database-error.js';
import { appliedFiles, compareVersions } from './migrate.js';
import type { SchemaName } from './schema-name.js';
import { sqlFiles } from './sql.generated.js';

/**
 * Checks at start that the schema is what this library works with.
 *
 * @throws SchemaError when something is missing, or a migration is there that this library does not know
 * @throws DatabaseUnavailableError when the database refuses us
 */
export async function checkSchema(pool: pg.Pool, schema: SchemaName, logger: Logger): Promise<void> {
  const applied = await appliedFiles(pool, schema).catch((error: unknown) => {
    throw explainDatabaseError(error, schema.name) ?? error;
  });
  const known = new Set(sqlFiles.filter((file) => file.kind === 'migration').map((file) => file.name));
  const unknown = applied.find((file) => file.kind === 'migration' && !known.has(file.name));
  if (unknown !== undefined) {
    throw new SchemaError(
      'WHIZBANG_SCHEMA_NEWER',
      `Schema '${schema.name}' has migration ${unknown.name} of version ${unknown.library_version}; this is version ${libraryVersion}, which does not know it. Use a library at least as new as the schema.`,
    );
  }
  const byKey = new Map(applied.map((file) => [`${file.kind}/${file.name}`, file]));
  const other = sqlFiles.find((file) => byKey.get(`${file.kind}/${file.name}`)?.checksum !== file.checksum);
  if (other === undefined) {
    return;
  }
  const present = byKey.get(`${other.kind}/${other.name}`);
  if (
    present !== undefined &&
    other.kind !== 'migration' &&
    compareVersions(present.library_version, libraryVersion) > 0
  ) {
    // A rolling deploy: the next version has migrated already, additively, and this one runs on beside it.
    logger.warn(
      { schema: schema.name, migratedBy: present.library_version, version: libraryVersion },
      'The schema was migrated by a newer version',
    );
    return;
  }
  throw new SchemaError(
    'WHIZBANG_SCHEMA_MISSING',
    applied.length === 0
      ? `Whizbang's tables are missing in schema '${schema.name}'. Run migrate() with this version of the library first.`
      : `Schema '${schema.name}' lacks ${other.kind} ${other.name} of version ${libraryVersion}. Run migrate() with this version of the library first.`,
  );
}

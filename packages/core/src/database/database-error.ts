import {
  DatabaseUnavailableError,
  SchemaError,
  type WhizbangError,
  isWhizbangError,
} from '../errors/whizbang-error.js';
import { maskSecrets } from '../errors/mask-secrets.js';

interface PgError {
  code?: string;
  message?: string;
}

/**
 * One clear sentence for what PostgreSQL or the way to it says, when it is about the set-up; `undefined` when the error
 * is the statement's own.
 */
export function explainDatabaseError(error: unknown, schema: string): WhizbangError | undefined {
  if (isWhizbangError(error)) {
    return error;
  }
  const { code, message = '' } = (error ?? {}) as PgError;
  const text = maskSecrets(message);
  const unavailable = (sentence: string, retryable: boolean) =>
    new DatabaseUnavailableError(sentence, { cause: error, retryable });
  switch (code) {
    case '28P01':
    case '28000':
      return unavailable(`PostgreSQL refuses the login: ${text}. Check user and password in the database URL.`, false);
    case '3D000':
      return unavailable(`The database does not exist: ${text}. Create it, or correct the database URL.`, false);
    case '53300':
      return unavailable(
        `PostgreSQL has no connection left: ${text}. Raise max_connections or use smaller pools.`,
        true,
      );
    case '42P01':
    case '42883':
    case '3F000':
      return new SchemaError(
        'WHIZBANG_SCHEMA_MISSING',
        `Whizbang's tables or functions are missing in schema '${schema}': ${text}. Run migrate() with this version of the library first.`,
        { cause: error },
      );
    case '42501':
      return unavailable(
        `PostgreSQL refuses a permission: ${text}. Grant the role of the database URL what docs/guarantees.md lists for schema '${schema}'.`,
        false,
      );
    case 'ECONNREFUSED':
    case 'ENOTFOUND':
    case 'EAI_AGAIN':
    case 'ETIMEDOUT':
    case 'EHOSTUNREACH':
    case 'ENETUNREACH':
    case 'ECONNRESET':
      return unavailable(
        `PostgreSQL cannot be reached: ${text || code}. Check host and port of the database URL.`,
        true,
      );
    default:
      return code === undefined && /timeout|terminated|not queryable/i.test(text)
        ? unavailable(`PostgreSQL cannot be reached: ${text}.`, true)
        : undefined;
  }
}

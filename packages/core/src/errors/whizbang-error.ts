/** Every code that a {@link WhizbangError} can carry; each is described in `docs/errors-of-the-library.md`. */
export type WhizbangErrorCode =
  | 'WHIZBANG_CONFIGURATION'
  | 'WHIZBANG_TRANSPORT_MISSING'
  | 'WHIZBANG_DATABASE_UNAVAILABLE'
  | 'WHIZBANG_SCHEMA_MISSING'
  | 'WHIZBANG_SCHEMA_NEWER'
  | 'WHIZBANG_SCHEMA_CHANGED'
  | 'WHIZBANG_MESSAGE_REFUSED'
  | 'WHIZBANG_STATE';

// A brand on the global symbol registry: `isWhizbangError` stays true when two copies of core are installed.
const brand = Symbol.for('whizbang.error');

/** Base of all errors that this library throws on purpose. Match on `code`, not on the text. */
export class WhizbangError extends Error {
  readonly code: WhizbangErrorCode;
  /** Whether the same call can succeed later without a change of code or configuration. */
  readonly retryable: boolean;
  readonly [brand] = true;

  constructor(code: WhizbangErrorCode, message: string, options: { cause?: unknown; retryable?: boolean } = {}) {
    super(message, options.cause === undefined ? undefined : { cause: options.cause });
    this.name = new.target.name;
    this.code = code;
    this.retryable = options.retryable ?? false;
  }
}

export function isWhizbangError(error: unknown): error is WhizbangError {
  return typeof error === 'object' && error !== null && (error as { [brand]?: unknown })[brand] === true;
}

/** Options, connection strings or registrations that cannot work; says what to change. */
export class ConfigurationError extends WhizbangError {
  constructor(message: string, options: { cause?: unknown } = {}) {
    super('WHIZBANG_CONFIGURATION', message, options);
  }
}

/** The adapter package for a broker is not installed, or no adapter is registered for the scheme. */
export class TransportMissingError extends WhizbangError {
  constructor(message: string, options: { cause?: unknown } = {}) {
    super('WHIZBANG_TRANSPORT_MISSING', message, options);
  }
}

/** The database cannot be reached or refuses us; the message says which and what to check. */
export class DatabaseUnavailableError extends WhizbangError {
  constructor(message: string, options: { cause?: unknown; retryable?: boolean } = {}) {
    super('WHIZBANG_DATABASE_UNAVAILABLE', message, options);
  }
}

/** The tables are missing, older, newer or other than this version of the library needs. */
export class SchemaError extends WhizbangError {
  constructor(
    code: 'WHIZBANG_SCHEMA_MISSING' | 'WHIZBANG_SCHEMA_NEWER' | 'WHIZBANG_SCHEMA_CHANGED',
    message: string,
    options: { cause?: unknown } = {},
  ) {
    super(code, message, options);
  }
}

/** `publish` refused a message before anything reached the database; the caller's transaction is untouched. */
export class MessageRefusedError extends WhizbangError {
  /** Where the payload or the options are wrong, one line each. */
  readonly issues: readonly string[];

  constructor(messageType: string, issues: readonly string[], options: { cause?: unknown } = {}) {
    super('WHIZBANG_MESSAGE_REFUSED', `Message '${messageType}' was not published: ${issues.join('; ')}.`, options);
    this.issues = issues;
  }
}

/** A call that does not fit the state: a handler registered after start, publish after stop. */
export class StateError extends WhizbangError {
  constructor(message: string) {
    super('WHIZBANG_STATE', message);
  }
}

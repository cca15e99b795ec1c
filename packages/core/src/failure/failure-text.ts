import { inspect } from 'node:util';
import { maskSecrets } from '../errors/mask-secrets.js';

const maxLength = 4_000;
const maxCauses = 5;

/**
 * The text of an error as it is stored: bounded, without secrets, and without what PostgreSQL's text refuses (NUL, lone
 * surrogates), so that recording a failure can never fail for the failure's sake. Never throws.
 */
export function failureText(error: unknown): string {
  let text: string;
  try {
    text = textOf(error);
  } catch {
    // A getter, a proxy or a toString that throws.
    text = 'an error that cannot be written as text';
  }
  return maskSecrets(text.slice(0, maxLength * 2))
    .replaceAll('\0', '\uFFFD')
    .toWellFormed()
    .slice(0, maxLength)
    .toWellFormed();
}

function textOf(error: unknown): string {
  if (!(error instanceof Error)) {
    return shown(error);
  }
  const lines = [String(error.stack ?? `${error.name}: ${error.message}`).slice(0, maxLength)];
  const seen = new Set<unknown>([error]);
  // What wraps an error says less than what it wraps.
  for (let { cause } = error; cause !== undefined && !seen.has(cause) && seen.size <= maxCauses;) {
    seen.add(cause);
    lines.push(
      `caused by ${cause instanceof Error ? `${cause.name}: ${cause.message}` : shown(cause)}`.slice(0, 1_000),
    );
    cause = cause instanceof Error ? cause.cause : undefined;
  }
  return lines.join('\n');
}

/** `customInspect` would run code of the value's own. */
function shown(value: unknown): string {
  return typeof value === 'string'
    ? value
    : inspect(value, { depth: 3, maxArrayLength: 20, maxStringLength: 1_000, customInspect: false, breakLength: 120 });
}

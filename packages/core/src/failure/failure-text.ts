import { maskSecrets } from '../errors/mask-secrets.js';

const maxLength = 4_000;

/**
 * The text of an error as it is stored: bounded, without secrets, and without what PostgreSQL's text refuses (NUL, lone
 * surrogates), so that recording a failure can never fail for the failure's sake.
 */
export function failureText(error: unknown): string {
  let text: string;
  try {
    text = error instanceof Error ? (error.stack ?? `${error.name}: ${error.message}`) : String(error);
  } catch {
    // An object whose toString throws.
    text = 'an error that cannot be written as text';
  }
  return maskSecrets(text.slice(0, maxLength * 2))
    .replaceAll('\0', '\uFFFD')
    .toWellFormed()
    .slice(0, maxLength)
    .toWellFormed();
}

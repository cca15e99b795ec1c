import { createHash } from 'node:crypto';

/** Stored beside a fingerprint: how it was made. */
export const fingerprintVersion = 1;

/**
 * Groups failures of one kind: 16 hexadecimal characters over the error's type, its text and its top three stack frames,
 * with what differs from case to case taken out (numbers, ids, quoted values, paths before the file's name).
 */
export function errorFingerprint(error: unknown): string {
  const type = error instanceof Error ? error.name : typeof error;
  const text = error instanceof Error ? error.message : safeText(error);
  const frames = error instanceof Error ? framesOf(error.stack ?? '') : [];
  const material = [type, normalise(text.slice(0, 500)), ...frames].join('\n');
  return createHash('sha256').update(material.toWellFormed()).digest('hex').slice(0, 16);
}

function safeText(value: unknown): string {
  try {
    return String(value);
  } catch {
    return 'unprintable';
  }
}

function framesOf(stack: string): string[] {
  return stack
    .split('\n')
    .filter((line) => /^\s+at /.test(line))
    .slice(0, 3)
    .map((line) =>
      normalise(
        line
          .trim()
          .replaceAll(/\(?(file:\/\/)?[^\s()]*[/\\]/g, '')
          .replaceAll(/:\d+:\d+\)?$/g, ''),
      ),
    );
}

function normalise(text: string): string {
  return text
    .replaceAll(/[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}/gi, '<id>')
    .replaceAll(/\b[0-9a-f]{12,}\b/gi, '<id>')
    .replaceAll(/'[^']*'|"[^"]*"/g, '<text>')
    .replaceAll(/\d+/g, '<n>');
}

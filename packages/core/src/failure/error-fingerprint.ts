import { createHash } from 'node:crypto';

// Bounds what a hostile or huge error can cost.
const maxStackLength = 20_000;
const maxLineLength = 500;

/**
 * Groups failures of one kind: 16 hexadecimal characters over the error's type, its text and its top three stack frames,
 * with what differs from case to case taken out (numbers, ids, quoted values, paths before the file's name). Never throws.
 */
export function errorFingerprint(error: unknown): string {
  const material = materialOf(error).join('\n').toWellFormed();
  return createHash('sha256').update(material).digest('hex').slice(0, 16);
}

function materialOf(error: unknown): string[] {
  try {
    if (error instanceof Error) {
      return [
        String(error.name),
        normalise(String(error.message).slice(0, maxLineLength)),
        ...framesOf(String(error.stack ?? '')),
      ];
    }
    return [typeof error, normalise(String(error).slice(0, maxLineLength))];
  } catch {
    // A getter, a proxy or a toString that throws.
    return [typeof error, 'unprintable'];
  }
}

function framesOf(stack: string): string[] {
  return stack
    .slice(0, maxStackLength)
    .split('\n')
    .filter((line) => /^\s+at /.test(line))
    .slice(0, 3)
    .map((line) =>
      normalise(
        line
          .slice(0, maxLineLength)
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

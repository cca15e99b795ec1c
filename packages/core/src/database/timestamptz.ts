// 4714-11-24 BC, before which PostgreSQL has no day.
const earliestMs = -210_866_803_200_000;

/** A date as PostgreSQL reads it, whatever its settings: ISO 8601 has other ideas of years before 1 and after 9999. */
export function timestamptz(date: Date): string {
  if (date.getTime() < earliestMs) {
    return '-infinity';
  }
  const year = date.getUTCFullYear();
  const rest = date.toISOString().replace(/^[+-]?\d+/, '');
  return year > 0 ? `${String(year).padStart(4, '0')}${rest}` : `${String(1 - year).padStart(4, '0')}${rest} BC`;
}

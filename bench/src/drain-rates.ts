import type { ContenderKey } from './contenders/index.js';
import { type DrainPlace, type Entry, drain, enter } from './drain-run.js';
import type { Rates } from './rates.js';
import { inRounds } from './rounds.js';
import type { BenchServices } from './services.js';

export type Entries<Key extends string> = Readonly<Record<Key, Entry>>;
export type RatesBy<Key extends string> = Readonly<Record<Key, Rates>>;

/** A database for each contender. What is slow gets fewer messages: a rate needs no more, and theirs does not fall with less. */
export async function enterAll<Key extends ContenderKey>(
  services: BenchServices,
  keys: readonly Key[],
  countOf: (key: Key) => number,
  streams = 1000,
): Promise<Entries<Key>> {
  const entries: Partial<Record<Key, Entry>> = {};
  for (const key of keys) entries[key] = await enter(services, key, countOf(key), streams);
  return entries as Entries<Key>;
}

/** The rates at which they drain, in rounds. */
export async function drainRates<Key extends ContenderKey>(
  entries: Entries<Key>,
  keys: readonly Key[],
  repeats: number,
  placeOf: (key: Key, round: number) => DrainPlace,
): Promise<RatesBy<Key>> {
  const rates = Object.fromEntries(
    keys.map((key) => [key, { name: entries[key].contender.name, perSecond: [], trouble: [] }]),
  ) as unknown as RatesBy<Key>;
  await inRounds(repeats, keys, async (key, round) => {
    const run = await drain(entries[key], placeOf(key, round));
    rates[key].perSecond.push(run.perSecond);
    rates[key].trouble.push(run.trouble);
    console.log(`round ${round + 1}: ${rates[key].name}: ${Math.round(run.perSecond)}/s`);
  });
  return rates;
}

/** Each contender's settings, for the results. */
export function settingsOf(entries: Readonly<Record<string, Entry>>): Record<string, string> {
  return Object.fromEntries(
    Object.values(entries).map(({ contender, count, streams }) => [
      contender.name,
      `${contender.settings}; ${count} messages of ${streams} streams`,
    ]),
  );
}

/** What a claim and a confirm can do that never overlap, round by round. */
export function limitOf(claims: readonly number[], confirms: readonly number[]): number[] {
  return confirms.map((rate, round) => 1 / (1 / rate + 1 / (claims[round] ?? NaN)));
}

export function troubleIn({ trouble }: Rates): number {
  return trouble.reduce((sum, { lost, doubled, outOfOrder }) => sum + lost + doubled + outOfOrder, 0);
}

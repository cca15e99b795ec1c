import type { Trouble } from './drain-run.js';
import { medianOf } from './percentiles.js';
import type { Bar } from './plot.js';
import type { Row } from './report.js';

/** The rates of one contender, run by run. */
export interface Rates {
  readonly name: string;
  readonly perSecond: number[];
  readonly trouble: Trouble[];
}

/** A row of the table of results: median, spread, each run. */
export function rateRow(what: string, { perSecond }: Pick<Rates, 'perSecond'>, unit = 'messages/s'): Row {
  return {
    what,
    [unit]: medianOf(perSecond),
    lowest: Math.min(...perSecond),
    highest: Math.max(...perSecond),
    runs: perSecond.map((rate) => Math.round(rate)).join(', '),
  };
}

export function rateBar(label: string, { perSecond }: Pick<Rates, 'perSecond'>, ours = false): Bar {
  return { label, values: [medianOf(perSecond)], spread: [Math.min(...perSecond), Math.max(...perSecond)], ours };
}

/** What did not arrive, arrived twice or in the wrong order, in words; nothing when all was well. */
export function troublesOf(rates: readonly Rates[]): string[] {
  return rates.flatMap(({ name, trouble }) => {
    const sum = (of: (one: Trouble) => number) => trouble.reduce((total, one) => total + of(one), 0);
    const [lost, doubled, late] = [sum((one) => one.lost), sum((one) => one.doubled), sum((one) => one.outOfOrder)];
    const words = [
      ...(lost > 0 ? [`${lost} messages lost`] : []),
      ...(doubled > 0 ? [`${doubled} messages twice`] : []),
      ...(late > 0 ? [`${late} messages after a later one of their stream`] : []),
    ];
    return words.length === 0 ? [] : [`${name}: ${words.join(', ')}, in ${trouble.length} runs.`];
  });
}

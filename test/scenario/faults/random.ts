import { uniformInt } from 'pure-rand/distribution/uniformInt';
import { xoroshiro128plus } from 'pure-rand/generator/xoroshiro128plus';
import type { RandomGenerator } from 'pure-rand/types/RandomGenerator';

/** Numbers that a seed decides. */
export class Random {
  readonly #generator: RandomGenerator;

  constructor(seed: number) {
    this.#generator = xoroshiro128plus(seed);
  }

  /** A whole number, both ends included. */
  between(least: number, most: number): number {
    return uniformInt(this.#generator, Math.round(least), Math.round(most));
  }

  /** True in so many of a hundred cases. */
  percent(share: number): boolean {
    return this.between(1, 100) <= share;
  }

  pick<Value>(values: readonly Value[]): Value {
    const value = values[this.between(0, values.length - 1)];
    if (value === undefined) throw new Error('there is nothing to pick from');
    return value;
  }

  /** Numbers of its own, that do not depend on how many are taken from the others. */
  fork(): Random {
    return new Random(this.between(0, 0x7fff_ffff));
  }
}

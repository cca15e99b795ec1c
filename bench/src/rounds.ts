/**
 * The runs of all contenders, round by round, each round in another order, so that what the machine does besides and what a
 * run leaves behind falls on everybody.
 */
export async function inRounds<Key extends string>(
  repeats: number,
  keys: readonly Key[],
  run: (key: Key, round: number) => Promise<void>,
): Promise<void> {
  for (let round = 0; round < repeats; round += 1) {
    for (let index = 0; index < keys.length; index += 1) {
      const key = keys[(index + round) % keys.length];
      if (key !== undefined) await run(key, round);
    }
  }
}

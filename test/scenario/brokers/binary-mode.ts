import type { SeenMessage } from './scenario-broker.js';

/** Parts what a CloudEvent in binary mode travels with into its attributes, which begin with `prefix`, and the other headers. */
export function partHeaders(
  travelling: Readonly<Record<string, string>>,
  prefix: RegExp,
): Pick<SeenMessage, 'attributes' | 'headers'> {
  const all = Object.entries(travelling);
  const attributes = all
    .filter(([name]) => prefix.test(name))
    .map(([name, value]): [string, string] => [name.replace(prefix, ''), value]);
  return {
    attributes: Object.fromEntries(attributes),
    headers: Object.fromEntries(all.filter(([name]) => !prefix.test(name))),
  };
}

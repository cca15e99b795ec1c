import type { TransportCapabilities } from '@whizbang/core/transport';
import type { TransportFixture } from './fixture.js';
import { Stage } from './stage.js';

const means = [
  'inspect',
  'outage',
  'restart',
  'absence',
  'stall',
  'throttle',
  'takeBack',
  'createRefused',
  'malformed',
] as const;
/** What befalls all transports of a fixture at once. */
const troubles: readonly string[] = [
  'outage',
  'restart',
  'absence',
  'stall',
  'throttle',
  'takeBack',
] satisfies readonly Means[];

type Means = (typeof means)[number];
type Need = keyof TransportCapabilities | Means;

/** One thing that a transport has to hold. */
export interface ConformanceCheck {
  readonly theme: string;
  readonly name: string;
  /** Capabilities and means of the fixture without which the check says nothing; `!` in front: only without it. */
  readonly needs: readonly (Need | `!${Need}`)[];
  /** Looks at what the whole process holds, so nothing else may run at the same time. */
  readonly alone: boolean;
  /** @throws an error that describes the violation. */
  run(fixture: TransportFixture): Promise<void>;
}

type CheckBody = (stage: Stage) => Promise<void>;

export interface ThemedCheck extends Omit<ConformanceCheck, 'theme'> {}

export function check(
  name: string,
  needs: ConformanceCheck['needs'],
  body: CheckBody,
  options: { readonly alone?: boolean } = {},
): ThemedCheck {
  return { name, needs, alone: options.alone ?? false, run: (fixture) => onStage(fixture, body) };
}

export function theme(name: string, checks: readonly ThemedCheck[]): readonly ConformanceCheck[] {
  return checks.map((themed) => ({ theme: name, ...themed }));
}

/** Whether it befalls everybody who uses the fixture. */
export function isTrouble({ needs }: Pick<ConformanceCheck, 'needs'>): boolean {
  return needs.some((need) => troubles.includes(need));
}

/** Whether the check says something about transports of this fixture. */
export function applies({ needs, theme: ofTheme }: ConformanceCheck, fixture: TransportFixture): boolean {
  if (fixture.themes?.includes(ofTheme) === false) return false;
  return needs.every((need) => {
    const negated = need.startsWith('!');
    return has(fixture, (negated ? need.slice(1) : need) as Need) !== negated;
  });
}

function has(fixture: TransportFixture, need: Need): boolean {
  if (means.includes(need as Means)) return fixture[need as Means] !== undefined;
  const capability = fixture.capabilities[need as keyof TransportCapabilities];
  return capability !== null && capability !== false;
}

async function onStage(fixture: TransportFixture, body: CheckBody): Promise<void> {
  const stage = new Stage(fixture);
  try {
    await body(stage);
  } catch (violation) {
    // What goes wrong while clearing up after a violation would only hide it.
    await stage.clear().catch(() => undefined);
    throw violation;
  }
  await stage.clear();
}

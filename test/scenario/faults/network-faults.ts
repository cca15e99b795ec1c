import type { TcpGate } from '../../fixtures/network/tcp-gate.js';
import type { Fault, Struck } from './fault.js';
import type { Participant } from './participant.js';
import type { Random } from './random.js';

interface Way {
  /** As it is called in names: `database`. */
  readonly to: string;
  readonly gate: (participant: Participant) => TcpGate | undefined;
  /** Without it nothing is lost but time. */
  readonly dispensable?: boolean;
}

interface NetworkTrouble {
  readonly name: string;
  readonly weight: number;
  readonly lasts: Fault['lasts'];
  readonly repeats: boolean;
  readonly strike: (gate: TcpGate, random: Random) => Promise<Struck['undo']> | Struck['undo'];
}

const nothing = async (): Promise<void> => undefined;

const troubles: readonly NetworkTrouble[] = [
  {
    name: 'cut',
    weight: 3,
    lasts: [0, 500],
    repeats: true,
    strike: (gate) => {
      gate.cut();
      return nothing;
    },
  },
  {
    name: 'refused',
    weight: 2,
    lasts: [300, 5_000],
    repeats: true,
    strike: async (gate) => {
      await gate.close();
      return () => gate.open();
    },
  },
  {
    name: 'stalled',
    weight: 2,
    lasts: [300, 6_000],
    repeats: true,
    strike: (gate) => {
      gate.stall();
      return async () => gate.resume();
    },
  },
  {
    name: 'black-holed',
    weight: 3,
    lasts: [1_000, 6_000],
    repeats: true,
    strike: (gate) => {
      gate.stall();
      return async () => gate.resume('new');
    },
  },
  {
    name: 'half closed',
    weight: 1,
    lasts: [0, 500],
    repeats: true,
    strike: (gate, random) => {
      gate.halfClose(random.pick(['client', 'server']));
      return nothing;
    },
  },
  {
    name: 'cut in the middle',
    weight: 3,
    lasts: [500, 2_000],
    repeats: true,
    strike: (gate, random) => {
      gate.cutAfter(random.between(50, 10_000));
      return async () => gate.cutAfter(Infinity);
    },
  },
  {
    name: 'slow',
    weight: 1,
    lasts: [1_000, 4_000],
    repeats: true,
    strike: (gate, random) => {
      gate.slow(random.between(20, 100));
      return async () => gate.slow(0);
    },
  },
];

/** What happens on the way of one participant to a server. */
export function networkFaults({ to, gate, dispensable = false }: Way): Fault[] {
  return troubles.map(({ name, weight, lasts, repeats, strike }) => ({
    name: `${to}: ${name}`,
    weight: dispensable ? weight / 3 : weight,
    lasts,
    repeats: repeats && !dispensable,
    strike: async (scene, random) => {
      const victim = random.pick(scene.participants.filter((participant) => gate(participant) !== undefined));
      const way = gate(victim);
      if (way === undefined) throw new Error(`${victim.name} has no way there`);
      return { on: victim.name, undo: await strike(way, random) };
    },
  }));
}

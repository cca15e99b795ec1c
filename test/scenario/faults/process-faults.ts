import type { Fault } from './fault.js';
import { leaseSeconds } from './fault-scene.js';

/** What happens to the processes of an application. */
export const processFaults: readonly Fault[] = [
  {
    name: 'SIGKILL',
    weight: 6,
    lasts: [100, 2_000],
    repeats: true,
    strike: async (scene, random) => {
      const victim = random.pick(scene.participants.filter(({ mayDie }) => mayDie));
      await victim.kill();
      return { on: victim.name, undo: async () => victim.launch() };
    },
  },
  {
    name: 'SIGSTOP, shorter than a lease',
    weight: 2,
    lasts: [100, 1_000],
    repeats: false,
    strike: async (scene, random) => {
      const victim = random.pick(scene.participants);
      victim.signal('SIGSTOP');
      return { on: victim.name, undo: async () => victim.signal('SIGCONT') };
    },
  },
  {
    name: 'SIGSTOP, longer than a lease',
    weight: 3,
    lasts: [leaseSeconds * 1_200, leaseSeconds * 2_500],
    repeats: true,
    strike: async (scene, random) => {
      const victim = random.pick(scene.participants);
      victim.signal('SIGSTOP');
      return { on: victim.name, undo: async () => victim.signal('SIGCONT') };
    },
  },
  {
    name: 'SIGTERM and a new process',
    weight: 2,
    lasts: [100, 1_000],
    repeats: false,
    strike: async (scene, random) => {
      const victim = random.pick(scene.participants.filter(({ mayDie }) => mayDie));
      const wrong = await victim.stop(20_000);
      // What it could not finish because of another fault is taken up again; what kept it from ending at all is a defect.
      victim.unexpectedEnds.push(...wrong.filter((what) => !what.includes('unfinished')));
      return { on: victim.name, undo: async () => victim.launch() };
    },
  },
  {
    name: 'clock moved',
    weight: 2,
    lasts: [500, 5_000],
    repeats: false,
    strike: async (scene, random) => {
      const victim = random.pick(scene.participants.filter(({ role }) => role !== 'producer'));
      const hours = random.between(1, 48) * (random.percent(50) ? 1 : -1);
      victim.tell({ clock: hours });
      return { on: `${victim.name} by ${hours} h`, undo: async () => victim.tell({ clock: 0 }) };
    },
  },
  {
    name: 'pool exhausted',
    weight: 2,
    lasts: [300, 1_500],
    repeats: false,
    strike: async (scene, random) => {
      const exhaustMs = random.between(300, 1_500);
      // Those without a pool of their user's have none that somebody else could use up.
      for (const participant of scene.participants) {
        if (participant.role !== 'producer') participant.tell({ exhaustMs });
      }
      return { on: `${exhaustMs} ms`, undo: async () => undefined };
    },
  },
];

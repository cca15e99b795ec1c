import type { Fault } from './fault.js';
import type { FaultScene } from './fault-scene.js';
import type { ParticipantCommand } from './participant-settings.js';

const tell = (scene: FaultScene, command: ParticipantCommand): void => scene.those('publisher')[0]?.tell(command);

/** What happens to the broker that is in the process of its users. */
export const inProcessFaults: readonly Fault[] = [
  {
    name: 'in-process broker away',
    weight: 4,
    lasts: [100, 4_000],
    repeats: true,
    strike: async (scene) => {
      tell(scene, { broker: 'away' });
      return { on: 'all connections', undo: async () => tell(scene, { broker: 'back' }) };
    },
  },
  {
    name: 'in-process broker blocked',
    weight: 4,
    lasts: [100, 4_000],
    repeats: true,
    strike: async (scene) => {
      tell(scene, { broker: 'blocked' });
      return { on: 'all publishers', undo: async () => tell(scene, { broker: 'unblocked' }) };
    },
  },
  {
    name: 'in-process broker refuses',
    weight: 4,
    lasts: [1_000, 2_000],
    repeats: true,
    strike: async (scene, random) => {
      const [failNext, stored] = [random.between(1, 20), random.percent(50)];
      tell(scene, { failNext, stored });
      return { on: `${failNext} messages${stored ? ' that it keeps' : ''}`, undo: async () => undefined };
    },
  },
];

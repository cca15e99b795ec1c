import { setTimeout as delay } from 'node:timers/promises';

import pg from 'pg';

import type { Fault } from './fault.js';
import { type FaultScene, readersName } from './fault-scene.js';
import { accountCount } from './order-step.js';

async function askEither(scene: FaultScene, sql: string): Promise<void> {
  await Promise.all([scene.orders.query(sql), scene.shipping.query(sql)]);
}

const strangers = `datname = current_database() and pid <> pg_backend_pid() and application_name <> '${readersName}'`;
const terminate = `select pg_terminate_backend(pid) from pg_stat_activity where ${strangers}`;

function restarts(mode: 'fast' | 'immediate' | 'kill'): Fault {
  return {
    name: `Postgres restarted: ${mode}`,
    weight: 1,
    lasts: [0, 3_000],
    repeats: true,
    strike: async (scene, random) => {
      if (mode === 'kill') {
        await scene.postgres.kill();
        await delay(random.between(0, 2_000));
        await scene.postgres.start();
      } else {
        await scene.postgres.restart(mode);
      }
      return { on: 'the server', undo: async () => undefined };
    },
  };
}

/** What happens to the database server and in it. */
export const databaseFaults: readonly Fault[] = [
  restarts('fast'),
  restarts('immediate'),
  restarts('kill'),
  {
    name: 'backends terminated',
    weight: 3,
    lasts: [0, 300],
    repeats: true,
    strike: async (scene, random) => {
      const share = random.pick([25, 50, 100]);
      await askEither(scene, `${terminate} and random() * 100 < ${share}`);
      return { on: `${share} %`, undo: async () => undefined };
    },
  },
  {
    name: 'statements cancelled',
    weight: 2,
    lasts: [500, 2_000],
    repeats: true,
    strike: async (scene) => {
      const stopping = new AbortController();
      const cancelling = (async () => {
        while (!stopping.signal.aborted) {
          await askEither(
            scene,
            `select pg_cancel_backend(pid) from pg_stat_activity where state = 'active' and ${strangers}`,
          );
          await delay(5);
        }
      })();
      return {
        on: 'whatever runs',
        undo: async () => {
          stopping.abort();
          await cancelling;
        },
      };
    },
  },
  {
    name: 'statements timed out',
    weight: 2,
    lasts: [1_000, 3_000],
    repeats: true,
    strike: async (scene, random) => {
      const timeoutMs = random.between(1, 10);
      const change = async (what: string): Promise<void> => {
        await Promise.all([
          scene.orders.query(`alter database orders ${what}`),
          scene.shipping.query(`alter database shipping ${what}`),
        ]);
        // It holds for sessions that begin afterwards.
        await askEither(scene, terminate);
      };
      await change(`set statement_timeout = '${timeoutMs}ms'`);
      return { on: `after ${timeoutMs} ms`, undo: () => change('reset statement_timeout') };
    },
  },
  {
    name: 'no connection left',
    weight: 1,
    lasts: [500, 3_000],
    repeats: true,
    strike: async (scene) => {
      const clients: pg.Client[] = [];
      // Those that are there are ended, so that their owners have to come back for new ones.
      await askEither(scene, terminate);
      for (let refused = false; !refused;) {
        const wave = Array.from({ length: 20 }, () => {
          const client = new pg.Client({ connectionString: scene.postgres.url, application_name: readersName });
          client.on('error', () => undefined);
          return client.connect().then(() => clients.push(client));
        });
        refused = (await Promise.allSettled(wave)).some(({ status }) => status === 'rejected');
      }
      return {
        on: `${clients.length} taken`,
        undo: async () => void (await Promise.allSettled(clients.map((client) => client.end()))),
      };
    },
  },
  {
    name: 'long transaction',
    weight: 1,
    lasts: [2_000, 8_000],
    repeats: false,
    strike: async (scene) => {
      const clients = await Promise.all([scene.orders.connect(), scene.shipping.connect()]);
      for (const client of clients) {
        client.on('error', () => undefined);
        await client.query('begin isolation level repeatable read');
        await client.query('select pg_current_xact_id(), count(*) from audit where position < 10');
      }
      return {
        on: 'both databases',
        undo: async () => {
          for (const client of clients) {
            await client.query('rollback').catch(() => undefined);
            client.release(true);
          }
        },
      };
    },
  },
  {
    name: "deadlock with the user's locks",
    weight: 2,
    lasts: [1_000, 3_000],
    repeats: true,
    strike: async (scene, random) => {
      const stopping = new AbortController();
      const [low, high] = [random.between(0, accountCount - 2), accountCount - 1];
      const update = (account: number): string => `update accounts set steps = steps where account = ${account}`;
      const locking = (async () => {
        const client = await scene.shipping.connect();
        client.on('error', () => undefined);
        let broken: unknown;
        while (!stopping.signal.aborted && broken === undefined) {
          // Handlers take them the other way around.
          for (const sql of ['begin', update(high), 'select pg_sleep(0.05)', update(low), 'commit']) {
            const error: unknown = await client.query(sql).then(
              () => undefined,
              (reason: unknown) => reason,
            );
            if (error === undefined) continue;
            await client.query('rollback').catch((reason: unknown) => (broken = reason));
            break;
          }
        }
        client.release(true);
      })();
      return {
        on: `accounts ${high} and ${low}`,
        undo: async () => {
          stopping.abort();
          await locking;
        },
      };
    },
  },
];

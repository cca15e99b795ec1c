import { type Whizbang, createWhizbang, migrate } from '@whizbang/core';
import { InProcessBroker } from '@whizbang/core/testing';

import { OrderNoted, OrderPlaced, sequenceOf } from '../order-placed.js';
import type { Contender, Job, Progress, Worker } from './contender.js';

/** Ours, with its defaults. */
export function whizbang({ ordered = true }: { readonly ordered?: boolean } = {}): Contender {
  const message = ordered ? OrderPlaced : OrderNoted;
  return {
    name: ordered ? 'Whizbang' : 'Whizbang, without streams',
    settings: 'defaults',
    prepare: async (_, database) => void (await migrate({ database })),
    reset: async (pool) => void (await pool.query('truncate whizbang.wh_outbox, whizbang.wh_doorbells')),
    tables: ['whizbang.wh_outbox'],
    pending: 'select count(*)::integer as pending from whizbang.wh_outbox',
    producer: async (database) => {
      const service = await createWhizbang({ service: 'orders', database, broker: 'memory:' });
      return {
        store: async (tx, orders) => {
          const [only] = orders;
          if (orders.length === 1 && only !== undefined) await service.publish(tx, message, only);
          else await service.publishMany(tx, message, orders);
        },
        close: async () => void (await service.stop()),
      };
    },
    worker: publisher,
  };
}

async function publisher({ database, broker, sink }: Job, progress: Progress): Promise<Worker> {
  const memory = 'memory:drain';
  const service = await createWhizbang({ service: 'orders', database, broker: sink === 'memory' ? memory : broker });
  if (sink === 'memory') {
    InProcessBroker.named('drain').tap(OrderPlaced.destination, ({ body }) => progress.saw(sequenceOf(body)));
    return { start: () => service.start(), stop: async () => void (await service.stop()) };
  }
  const counting = countPublished(service, progress);
  return {
    start: () => service.start(),
    stop: async () => {
      clearInterval(counting);
      await service.stop();
    },
  };
}

/** There is no event for it; looking costs nothing. */
function countPublished(service: Whizbang, progress: Progress): NodeJS.Timeout {
  let counted = 0;
  return setInterval(() => {
    const { published } = service.counters;
    if (published > counted) progress.through(published - counted);
    counted = published;
  }, 2);
}

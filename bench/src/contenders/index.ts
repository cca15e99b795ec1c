import { bareInsert } from './bare-insert.js';
import type { Contender } from './contender.js';
import { graphileWorker } from './graphile-worker.js';
import { handWritten } from './hand-written.js';
import { rawClaim, rawConfirms, rawKafka } from './limits.js';
import { pgBoss } from './pg-boss.js';
import { pgTransactionalOutbox } from './pg-transactional-outbox.js';
import { whizbangBeside } from './whizbang-beside.js';
import { whizbang } from './whizbang.js';

/** By the key under which a bench and its child processes know them. */
const contenders = {
  whizbang: () => whizbang(),
  'whizbang-unordered': () => whizbang({ ordered: false }),
  'whizbang-beside': () => whizbangBeside(),
  /** On a database where somebody's transaction stays open. */
  'whizbang-open': () => whizbang(),
  'hand-delete-100': () => handWritten({ batch: 100, finish: 'delete' }),
  'hand-delete-1000': () => handWritten({ batch: 1000, finish: 'delete' }),
  'hand-update-100': () => handWritten({ batch: 100, finish: 'update' }),
  'hand-update-1000': () => handWritten({ batch: 1000, finish: 'update' }),
  'hand-notify-100': () => handWritten({ batch: 100, finish: 'delete', notify: true }),
  'pg-boss': () => pgBoss(),
  'pg-boss-ordered': () => pgBoss({ ordered: true, batch: 500, workers: 1 }),
  'pg-boss-ordered-10': () => pgBoss({ ordered: true, batch: 10, workers: 1 }),
  'graphile-worker': () => graphileWorker(),
  'graphile-worker-ordered': () => graphileWorker({ ordered: true }),
  'outbox-polling': () => pgTransactionalOutbox({ listener: 'polling' }),
  'outbox-polling-ordered': () => pgTransactionalOutbox({ listener: 'polling', ordered: true }),
  'outbox-replication': () => pgTransactionalOutbox({ listener: 'replication' }),
  'outbox-replication-ordered': () => pgTransactionalOutbox({ listener: 'replication', ordered: true }),
  'bare-insert': () => bareInsert(),
  'raw-confirms': () => rawConfirms(),
  'raw-kafka': () => rawKafka(),
  'raw-claim': () => rawClaim(1000),
} satisfies Readonly<Record<string, () => Contender>>;

export type ContenderKey = keyof typeof contenders;

export function contenderOf(key: ContenderKey): Contender {
  return contenders[key]();
}

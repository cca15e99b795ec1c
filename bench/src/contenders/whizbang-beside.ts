import type { Contender } from './contender.js';
import { whizbang } from './whizbang.js';

/** Whizbang on tables that are full of what does not move: nothing is emptied, and only what moves is waited for. */
export function whizbangBeside(): Contender {
  return {
    ...whizbang(),
    name: 'Whizbang, beside rows that stay',
    reset: async () => undefined,
    pending: `select count(*)::integer as pending from whizbang.wh_outbox
              where processed_at is null and scheduled_for is null and not blocked`,
  };
}

import { v5, v7 } from 'uuid';

import type { Contender, Producer } from './contender.js';
import { whizbang } from './whizbang.js';

const columns = 'message_id, destination, message_type, event_data, metadata, stream_id, body_bytes';

/**
 * The same row in the same table, by a plain INSERT: what Postgres asks for it, without any function, check or doorbell of
 * ours. Whizbang's publishers do the rest, so that both have the same beside them.
 */
export function bareInsert(): Contender {
  return {
    ...whizbang(),
    name: 'bare INSERT of the same row',
    settings: 'prepared INSERT into wh_outbox with its indexes, values made beforehand; the publisher of Whizbang',
    producer: async () => {
      let rung = false;
      const store: Producer['store'] = async (tx, orders) => {
        // Once, so that the publisher is awake as it is with ours.
        if (!rung) await tx.query("select whizbang.ring_doorbell('outbox')");
        rung = true;
        const rows = orders.map((order) => {
          const body = JSON.stringify(order);
          const metadata = JSON.stringify({ streamKey: order.order, time: new Date().toISOString() });
          return { id: v7(), body, metadata, stream: v5(order.order, v5.URL), bytes: Buffer.byteLength(body) };
        });
        const [only] = rows;
        if (rows.length === 1 && only !== undefined) {
          await tx.query({
            name: 'bare',
            text: `insert into whizbang.wh_outbox (${columns}) values ($1, 'orders', 'orders.order-placed', $2, $3, $4, $5)`,
            values: [only.id, only.body, only.metadata, only.stream, only.bytes],
          });
          return;
        }
        await tx.query({
          name: 'bare many',
          text: `insert into whizbang.wh_outbox (${columns})
                 select i, 'orders', 'orders.order-placed', b::json, m::json, s, n
                 from unnest($1::uuid[], $2::text[], $3::text[], $4::uuid[], $5::integer[]) as r (i, b, m, s, n)`,
          values: [
            rows.map(({ id }) => id),
            rows.map(({ body }) => body),
            rows.map(({ metadata }) => metadata),
            rows.map(({ stream }) => stream),
            rows.map(({ bytes }) => bytes),
          ],
        });
      };
      return { store, close: async () => undefined };
    },
  };
}

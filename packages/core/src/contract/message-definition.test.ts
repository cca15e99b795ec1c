import { expect, test } from 'vitest';
import { z } from 'zod';
import { defineMessage } from './message-definition.js';

const schema = z.object({ orderId: z.string() });

test.each(['orders.order-placed', 'A', '0_x', 'a'.repeat(200)])('a message may be called %s', (type) => {
  expect(defineMessage(type, { schema, destination: 'orders' })).toMatchObject({ type, destination: 'orders' });
});

test.each(['', ' a', 'a b', '.a', '-a', 'a/b', 'a*', 'é', 'a'.repeat(201), undefined])(
  'a message may not be called %s, nor may a destination',
  (name) => {
    const wrong = name as string;
    expect(() => defineMessage(wrong, { schema, destination: 'orders' })).toThrow(/type must be/);
    expect(() => defineMessage('orders', { schema, destination: wrong })).toThrow(/destination must be/);
  },
);

test('everything that is wrong with a definition is said at once', () => {
  const options = { schema: {}, destination: '', stream: 'orderId' } as unknown as Parameters<typeof defineMessage>[1];
  expect(() => defineMessage('no name', options)).toThrow(
    /'no name' cannot be defined: type .*; destination .*; schema .*; stream .*\.$/,
  );
});

test('a definition may be an instance of a class: what it has from its class is kept, and its methods know it', () => {
  class Orders {
    readonly schema = z.object({ id: z.string() });
    readonly #prefix = 'order-';
    get destination() {
      return 'orders';
    }
    get serializeStreams() {
      return true;
    }
    stream({ id }: { id: string }) {
      return this.#prefix + id;
    }
  }
  const definition = defineMessage('orders.placed', new Orders());
  expect(definition).toMatchObject({ type: 'orders.placed', destination: 'orders', serializeStreams: true });
  expect(definition.stream?.({ id: '1' })).toBe('order-1');
});

test('a definition cannot be changed', () => {
  expect(Object.isFrozen(defineMessage('a', { schema, destination: 'orders' }))).toBe(true);
});

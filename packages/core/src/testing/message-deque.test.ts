import { describe, expect, test } from 'vitest';
import { MessageDeque } from './message-deque.js';

describe('MessageDeque', () => {
  test('gives out in order, and what is put back comes first', () => {
    const deque = new MessageDeque<number>();
    for (const n of [1, 2, 3, 4, 5]) deque.push(n);
    const taken = deque.takeUpTo(3);
    expect(taken).toEqual([1, 2, 3]);
    deque.putBack(taken.slice(1));
    expect(deque.takeUpTo(10)).toEqual([2, 3, 4, 5]);
    deque.putBack([4, 5]);
    deque.push(6);
    expect(deque.length).toBe(3);
    expect(deque.takeUpTo(10)).toEqual([4, 5, 6]);
    expect(deque.takeUpTo(10)).toEqual([]);
  });

  test('behaves like an array over many thousands of operations', () => {
    const deque = new MessageDeque<number>();
    let model: number[] = [];
    let next = 0;
    for (let round = 0; round < 3_000; round += 1) {
      for (let pushes = round % 7; pushes > 0; pushes -= 1) {
        deque.push(next);
        model.push(next);
        next += 1;
      }
      const count = (round * 5) % 11;
      const taken = deque.takeUpTo(count);
      expect(taken).toEqual(model.slice(0, count));
      model = model.slice(count);
      if (round % 3 === 0) {
        deque.putBack(taken);
        model = [...taken, ...model];
      }
      expect(deque.length).toBe(model.length);
    }
  });
});

import { createHook } from 'node:async_hooks';

interface Handle {
  hasRef(): boolean;
}

function isHandle(resource: object): resource is Handle {
  return 'hasRef' in resource && typeof resource.hasRef === 'function';
}

/** The first places of the stack that are not Node's or this file's. */
function caller(): string {
  const places = (new Error('opened').stack ?? '')
    .split('\n')
    .slice(1)
    .map((line) => line.trim());
  return places
    .filter((place) => !/node:|opened-handles/.test(place))
    .slice(0, 2)
    .join(', ');
}

/**
 * The sockets, timers and processes opened since its creation. Those that were there before are not looked at: one of them that
 * ends in the meantime would hide one that was left behind, if they were only counted.
 */
export class OpenedHandles {
  readonly #open = new Map<number, { kind: string; handle: Handle; opener: string }>();
  readonly #hook = createHook({
    init: (id, kind, _trigger, resource) => {
      // The turns of the event loop by which this is observed are no handles to wait for.
      if (kind !== 'Immediate' && isHandle(resource)) this.#open.set(id, { kind, handle: resource, opener: caller() });
    },
    destroy: (id) => this.#open.delete(id),
  }).enable();

  /** Those that still keep the process alive, each with the place that opened it. */
  list(): string[] {
    const open = [...this.#open.values()].filter(({ handle }) => handle.hasRef());
    return open.map(({ kind, opener }) => `${kind} ${opener}`);
  }

  [Symbol.dispose](): void {
    this.#hook.disable();
  }
}

import { createHook } from 'node:async_hooks';

interface Handle {
  hasRef(): boolean;
}

function isHandle(resource: object): resource is Handle {
  return 'hasRef' in resource && typeof resource.hasRef === 'function';
}

/**
 * The sockets, timers and processes opened since its creation. Those that were there before are not looked at: one of them that
 * ends in the meantime would hide one that was left behind, if they were only counted.
 */
export class OpenedHandles {
  readonly #open = new Map<number, { kind: string; handle: Handle }>();
  readonly #hook = createHook({
    init: (id, kind, _trigger, resource) => {
      // The turns of the event loop by which this is observed are no handles to wait for.
      if (kind !== 'Immediate' && isHandle(resource)) this.#open.set(id, { kind, handle: resource });
    },
    destroy: (id) => this.#open.delete(id),
  }).enable();

  /** The kinds of those that still keep the process alive. */
  kinds(): string[] {
    return [...this.#open.values()].filter(({ handle }) => handle.hasRef()).map(({ kind }) => kind);
  }

  [Symbol.dispose](): void {
    this.#hook.disable();
  }
}

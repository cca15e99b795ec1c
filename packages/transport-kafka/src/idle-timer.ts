import { createRequire } from 'node:module';

interface RequestQueue {
  readonly pending: readonly unknown[];
  scheduleCheckPendingRequests: (this: RequestQueue) => void;
}

let done = false;

/**
 * From its first answer on, every connection of kafkajs 2.2.4 looks every millisecond whether requests wait, for ever: 850
 * wake-ups a second. This lets it look only when some do. Another version, built differently, is left as it is.
 */
export function calmIdleConnections(): void {
  if (done) return;
  done = true;
  try {
    const { prototype } = createRequire(import.meta.url)('kafkajs/src/network/requestQueue') as {
      prototype: RequestQueue;
    };
    const schedule = prototype.scheduleCheckPendingRequests;
    if (typeof schedule !== 'function') return;
    prototype.scheduleCheckPendingRequests = function (this: RequestQueue) {
      if (!Array.isArray(this.pending) || this.pending.length > 0) schedule.call(this);
    };
  } catch {
    // It works all the same, only less quietly.
  }
}

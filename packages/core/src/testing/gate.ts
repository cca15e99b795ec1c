/** Holds whoever waits at it until it is opened, once and for all. */
export class Gate {
  readonly #opened = new AbortController();

  open(): void {
    this.#opened.abort();
  }

  /** Resolves when the gate opens or one of the signals aborts, whichever comes first. */
  passed(...signals: readonly AbortSignal[]): Promise<void> {
    const all = [this.#opened.signal, ...signals];
    return new Promise((resolve) => {
      const pass = (): void => {
        // The signals outlive the gate, so nothing of it stays with them.
        for (const signal of all) signal.removeEventListener('abort', pass);
        resolve();
      };
      for (const signal of all) signal.addEventListener('abort', pass);
      if (all.some((signal) => signal.aborted)) pass();
    });
  }
}

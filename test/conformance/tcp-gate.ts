import { once } from 'node:events';
import { type AddressInfo, type Socket, connect, createServer } from 'node:net';

/** A way to a server that can be cut, stalled and mended: trouble that one test has for itself. */
export class TcpGate {
  readonly #target: { readonly host: string; readonly port: number };
  readonly #server = createServer((socket) => this.#passThrough(socket));
  readonly #sockets = new Set<Socket>();
  /** Of each connection: connects its two sides. */
  readonly #connections = new Set<() => void>();
  #isStalled = false;
  #port: number;

  /** @param port Where to listen. Default: a port that is free. */
  constructor(target: { readonly host: string; readonly port: number }, port = 0) {
    this.#target = target;
    this.#port = port;
  }

  /** On the loopback address; the same after every cut. */
  get port(): number {
    return this.#port;
  }

  async open(): Promise<void> {
    this.#server.listen(this.#port, '127.0.0.1');
    await once(this.#server, 'listening');
    this.#port = (this.#server.address() as AddressInfo).port;
  }

  /** Ends all connections, and refuses new ones until `open`. */
  async close(): Promise<void> {
    if (!this.#server.listening) return;
    const closed = once(this.#server, 'close');
    this.#server.close();
    this.cut();
    await closed;
  }

  /** Ends all connections; new ones are welcome. */
  cut(): void {
    this.#connections.clear();
    for (const socket of this.#sockets) socket.destroy();
  }

  /** Nothing passes any more, in neither direction, and no connection ends; new ones are accepted and hear nothing. */
  stall(): void {
    this.#isStalled = true;
    for (const socket of this.#sockets) socket.unpipe().pause();
  }

  /** Passes what was held back, and all that follows; or, after a network that forgot its connections, new ones only. */
  resume(which: 'all' | 'new' = 'all'): void {
    if (!this.#isStalled) return;
    this.#isStalled = false;
    if (which === 'all') for (const passOn of this.#connections) passOn();
  }

  /** Closed while `during` runs. */
  async outage(during: () => Promise<void>): Promise<void> {
    await this.close();
    try {
      await during();
    } finally {
      await this.open();
    }
  }

  /** Stalled while `during` runs; then everything passes that was held back. */
  async stalled(during: () => Promise<void>): Promise<void> {
    this.stall();
    try {
      await during();
    } finally {
      this.resume();
    }
  }

  #passThrough(near: Socket): void {
    const far = connect(this.#target);
    const passOn = (): void => {
      near.pipe(far);
      far.pipe(near);
    };
    this.#connections.add(passOn);
    for (const [socket, other] of [[near, far] as const, [far, near] as const]) {
      socket.setNoDelay(true);
      this.#sockets.add(socket);
      // What has gone wrong shows on the other side as a closed connection, as it would without the gate.
      socket.on('error', () => undefined);
      socket.on('close', () => {
        this.#sockets.delete(socket);
        this.#connections.delete(passOn);
        other.destroy();
      });
    }
    if (!this.#isStalled) passOn();
  }
}

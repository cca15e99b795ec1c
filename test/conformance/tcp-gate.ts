import { once } from 'node:events';
import { type AddressInfo, type Socket, connect, createServer } from 'node:net';

/** A way to a server that can be cut and mended: an outage that one test has for itself. */
export class TcpGate {
  readonly #target: { readonly host: string; readonly port: number };
  readonly #server = createServer((socket) => this.#passThrough(socket));
  readonly #sockets = new Set<Socket>();
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
    for (const socket of this.#sockets) socket.destroy();
    await closed;
  }

  #passThrough(near: Socket): void {
    const far = connect(this.#target);
    near.setNoDelay(true);
    far.setNoDelay(true);
    for (const [socket, other] of [[near, far] as const, [far, near] as const]) {
      this.#sockets.add(socket);
      // What has gone wrong shows on the other side as a closed connection, as it would without the gate.
      socket.on('error', () => undefined);
      socket.on('close', () => {
        this.#sockets.delete(socket);
        other.destroy();
      });
      socket.pipe(other);
    }
  }
}

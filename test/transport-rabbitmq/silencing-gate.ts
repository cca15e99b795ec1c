import { once } from 'node:events';
import { type AddressInfo, type Socket, connect, createServer } from 'node:net';

/** A way to a server on which connections can fall silent without ending, as behind a dead link. */
export class SilencingGate {
  readonly #target: { readonly host: string; readonly port: number };
  readonly #server = createServer((socket) => this.#passThrough(socket));
  readonly #sockets = new Set<Socket>();
  #silent = false;

  constructor(target: { readonly host: string; readonly port: number }) {
    this.#target = target;
  }

  get port(): number {
    return (this.#server.address() as AddressInfo).port;
  }

  async open(): Promise<void> {
    this.#server.listen(0, '127.0.0.1');
    await once(this.#server, 'listening');
  }

  /** Nothing passes any more, in neither direction; new connections are accepted and hear nothing. */
  silence(): void {
    this.#silent = true;
    for (const socket of this.#sockets) socket.unpipe().pause();
  }

  /** New connections pass again; those that fell silent stay so. */
  speak(): void {
    this.#silent = false;
  }

  async close(): Promise<void> {
    const closed = once(this.#server, 'close');
    this.#server.close();
    for (const socket of this.#sockets) socket.destroy();
    await closed;
  }

  #passThrough(near: Socket): void {
    this.#keep(near);
    if (this.#silent) return;
    const far = connect(this.#target);
    this.#keep(far);
    near.pipe(far).pipe(near);
    near.on('close', () => far.destroy());
    far.on('close', () => near.destroy());
  }

  #keep(socket: Socket): void {
    this.#sockets.add(socket);
    socket.setNoDelay(true);
    socket.on('error', () => undefined);
    socket.on('close', () => this.#sockets.delete(socket));
  }
}

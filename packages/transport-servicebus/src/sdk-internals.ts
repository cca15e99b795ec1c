import type { ServiceBusClient, ServiceBusReceiver, ServiceBusSender } from '@azure/service-bus';

/**
 * The SDK tells nobody that a connection or link is gone while a send waits for its answer: the send waits on, up to its
 * timeout. The AMQP objects underneath know at once. What is read of them is all here, and all of it is optional: should
 * another version of the SDK look different inside, losses are noticed by timeouts only.
 */

/** The part that is used of rhea-promise's emitters. */
interface Emitter {
  on(event: string, listener: (context: unknown) => void): unknown;
  removeListener(event: string, listener: (context: unknown) => void): unknown;
}

interface AmqpConnection extends Emitter {
  readonly error?: unknown;
  readonly _connection?: { readonly socket?: { destroy(error: Error): void; setNoDelay?(): void } };
}

interface AmqpLink extends Emitter {
  readonly error?: unknown;
  readonly session?: Emitter & { readonly error?: unknown };
}

function connectionOf(client: ServiceBusClient): AmqpConnection | undefined {
  const { _connectionContext } = client as unknown as { _connectionContext?: { connection?: AmqpConnection } };
  const connection = _connectionContext?.connection;
  return typeof connection?.on === 'function' ? connection : undefined;
}

/** Calls back once when the client's present connection is lost. */
export function onConnectionLost(client: ServiceBusClient, listener: (cause: unknown) => void): void {
  const connection = connectionOf(client);
  const lost = (context: unknown): void => {
    connection?.removeListener('disconnected', lost);
    listener((context as { error?: unknown } | undefined)?.error ?? connection?.error);
  };
  connection?.on('disconnected', lost);
}

/**
 * Frames go out at once, which the SDK has no option for. With Nagle's algorithm, opening a link waits for the other side's
 * delayed acknowledgements.
 */
export function sendWithoutDelay(client: ServiceBusClient): void {
  connectionOf(client)?._connection?.socket?.setNoDelay?.();
}

/**
 * Ends the client's socket without a word. Everything of the SDK that waits on the connection is told so by that, and
 * stops its timers; closing politely would leave those of attaches that the broker holds back for up to a minute.
 */
export function destroySocket(client: ServiceBusClient): void {
  // Without an error, nobody up there would notice.
  connectionOf(client)?._connection?.socket?.destroy(new Error('closed by this side'));
}

/** Calls back once when the sender's present link is lost, with what the broker said. */
export function onLinkLost(sender: ServiceBusSender, listener: (cause: unknown) => void): void {
  const { _sender } = sender as unknown as { _sender?: { link?: AmqpLink } };
  const link = _sender?.link;
  if (typeof link?.on !== 'function') return;
  let told = false;
  const lost = (): void => {
    if (told) return;
    told = true;
    listener(link.error ?? link.session?.error);
  };
  link.on('sender_error', lost);
  link.on('sender_close', lost);
  link.session?.on('session_error', lost);
  link.session?.on('session_close', lost);
}

/**
 * Forgets settlements that wait for their answer. On a link that is gone they would wait on, those of sessions for a minute
 * whatever the options say, and their timers would keep the process alive for as long.
 */
export function forgetSettlements(receiver: ServiceBusReceiver): void {
  type Settling = { _deliveryDispositionMap?: unknown };
  const { _messageSession, _streamingReceiver } = receiver as unknown as Record<string, Settling | undefined>;
  for (const inside of [_messageSession, _streamingReceiver]) {
    const settling = inside?._deliveryDispositionMap;
    if (!(settling instanceof Map)) continue;
    for (const { timer } of settling.values() as Iterable<{ timer?: NodeJS.Timeout }>) clearTimeout(timer);
    settling.clear();
  }
}

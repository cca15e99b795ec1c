import type { HandlerTransaction } from './transaction.js';
import type { MessageDefinition, PayloadOf } from './message-definition.js';

export interface PublishOptions {
  /** Headers of your own; names are printable ASCII, 48 KiB in all. */
  readonly headers?: Readonly<Record<string, string>>;
  /** A UUID of your own, for a message that must not be stored twice. Default: a UUIDv7. */
  readonly messageId?: string;
  /** Default: the correlation id of the message in hand, else the message's own id. */
  readonly correlationId?: string;
  /** Not to be published before this time, by the database's clock. In a stream, later messages wait behind it. */
  readonly scheduledFor?: Date;
}

/** What a handler gets beside the payload. */
export interface MessageContext {
  /**
   * The transaction of this handler. Everything written through it commits together with the completion of the message. It
   * ends with the handler: a statement of what was started and not waited for rejects with a ConfigurationError afterwards.
   */
  readonly tx: HandlerTransaction;
  /**
   * Publishes in the same transaction. The message carries the correlation id of the message in hand, names it as its
   * cause, and continues its trace.
   */
  readonly publish: <Definition extends MessageDefinition>(
    message: Definition,
    payload: PayloadOf<Definition>,
    options?: PublishOptions,
  ) => Promise<{ messageId: string }>;
  /** 1 for the first try. */
  readonly attempt: number;
  /** Aborts when the lease is about to end or the process stops; what is thrown then is tried again. */
  readonly signal: AbortSignal;
  readonly messageId: string;
  readonly messageType: string;
  readonly streamId: string | null;
  readonly streamKey: string | null;
  readonly correlationId: string;
  readonly causationId: string | null;
  /** The service that published it, as a path: `/orders`. */
  readonly source: string | null;
  readonly headers: Readonly<Record<string, string>>;
  /**
   * The payload as it was sent, character for character: for signatures, and for numbers beyond 2^53, of which JSON.parse
   * loses digits.
   */
  readonly json: string;
  /** MessageProcessingStatus bits that earlier tries completed. */
  readonly status: number;
}

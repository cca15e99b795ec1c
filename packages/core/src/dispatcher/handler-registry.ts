import type { MessageContext } from '../contract/message-context.js';
import type { HandledPayloadOf, MessageDefinition } from '../contract/message-definition.js';
import { ConfigurationError } from '../errors/whizbang-error.js';

/** Handles one message in one transaction. */
export type Handler<Definition extends MessageDefinition> = (
  payload: HandledPayloadOf<Definition>,
  context: MessageContext,
) => Promise<void> | void;

/** Handles many messages of one type in one transaction; those of one stream are in order. */
export type BatchHandler<Definition extends MessageDefinition> = (
  messages: readonly { readonly payload: HandledPayloadOf<Definition>; readonly context: MessageContext }[],
) => Promise<void> | void;

export interface RegisteredHandler {
  readonly definition: MessageDefinition;
  /** 1 for a plain handler. */
  readonly maxBatch: number;
  readonly run: (
    messages: readonly { readonly payload: unknown; readonly context: MessageContext }[],
  ) => Promise<void> | void;
}

/** One handler per message type. */
export class HandlerRegistry {
  readonly #handlers = new Map<string, RegisteredHandler>();

  get size(): number {
    return this.#handlers.size;
  }

  /** The largest batch that any handler takes. */
  get maxBatch(): number {
    return Math.max(1, ...[...this.#handlers.values()].map((handler) => handler.maxBatch));
  }

  register(handler: RegisteredHandler): void {
    const { type } = handler.definition;
    if (this.#handlers.has(type)) {
      throw new ConfigurationError(
        `Message '${type}' has a handler already. A service handles a message once: call both from one handler, or make two services.`,
      );
    }
    this.#handlers.set(type, handler);
  }

  get(messageType: string): RegisteredHandler | undefined {
    return this.#handlers.get(messageType);
  }

  /** The messages that are handled. */
  definitions(): MessageDefinition[] {
    return [...this.#handlers.values()].map((handler) => handler.definition);
  }

  /** The message types to receive from each destination. */
  bindings(): { destination: string; messageTypes: string[] }[] {
    const byDestination = new Map<string, string[]>();
    for (const { definition } of this.#handlers.values()) {
      byDestination.set(definition.destination, [
        ...(byDestination.get(definition.destination) ?? []),
        definition.type,
      ]);
    }
    return [...byDestination].map(([destination, messageTypes]) => ({ destination, messageTypes }));
  }
}

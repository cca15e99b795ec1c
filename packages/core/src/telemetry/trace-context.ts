import {
  type Context,
  type Link,
  ROOT_CONTEXT,
  SpanKind,
  SpanStatusCode,
  context,
  propagation,
  trace,
} from '@opentelemetry/api';
import type { MessageMetadata } from '../contract/message-metadata.js';
import { libraryVersion } from '../options/library-version.js';

/** The active trace context as it travels in a message; empty when nothing is being traced. */
export function activeTraceContext(): { traceparent?: string; tracestate?: string } {
  const carrier: Record<string, string> = {};
  propagation.inject(context.active(), carrier);
  const { traceparent, tracestate } = carrier;
  return { ...(traceparent ? { traceparent } : {}), ...(tracestate ? { tracestate } : {}) };
}

/** A message about to be handled, with its trace. */
export interface TracedMessage {
  readonly messageId: string;
  readonly messageType: string;
  readonly destination: string;
  readonly attempts: number;
  readonly metadata: MessageMetadata;
}

/**
 * Runs a handler as a consumer span that continues the trace of the first message; what it publishes continues it further.
 * A span has one parent only, so the traces of the others in a batch are linked.
 */
export async function inHandlerSpan<Result>(
  [first, ...others]: readonly [TracedMessage, ...TracedMessage[]],
  run: () => Promise<Result>,
): Promise<Result> {
  const parent = sentContext(first.metadata);
  const links = others.flatMap(({ messageId, metadata }): Link[] => {
    const linked = trace.getSpanContext(sentContext(metadata));
    return linked === undefined ? [] : [{ context: linked, attributes: { 'messaging.message.id': messageId } }];
  });
  const tracer = trace.getTracer('whizbang', libraryVersion);
  return tracer.startActiveSpan(
    `process ${first.messageType}`,
    {
      kind: SpanKind.CONSUMER,
      links,
      attributes: {
        'messaging.system': 'whizbang',
        'messaging.operation.type': 'process',
        'messaging.destination.name': first.destination,
        'messaging.message.id': first.messageId,
        'whizbang.message_type': first.messageType,
        'whizbang.attempt': first.attempts,
      },
    },
    parent,
    async (span) => {
      try {
        return await run();
      } catch (error) {
        span.recordException(error instanceof Error ? error : String(error));
        span.setStatus({ code: SpanStatusCode.ERROR });
        throw error;
      } finally {
        span.end();
      }
    },
  );
}

/** The context in which a message was published. */
function sentContext({ traceparent, tracestate }: MessageMetadata): Context {
  return propagation.extract(ROOT_CONTEXT, { traceparent, tracestate });
}

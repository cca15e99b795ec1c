import { type Context, ROOT_CONTEXT, SpanKind, SpanStatusCode, context, propagation, trace } from '@opentelemetry/api';
import type { MessageMetadata } from '../contract/message-metadata.js';
import { libraryVersion } from '../options/library-version.js';

/** The active trace context as it travels in a message; empty when nothing is being traced. */
export function activeTraceContext(): { traceparent?: string; tracestate?: string } {
  const carrier: Record<string, string> = {};
  propagation.inject(context.active(), carrier);
  const { traceparent, tracestate } = carrier;
  return { ...(traceparent ? { traceparent } : {}), ...(tracestate ? { tracestate } : {}) };
}

/** Runs a handler as a consumer span that continues the message's trace; what it publishes continues it further. */
export async function inHandlerSpan<Result>(
  message: { messageId: string; messageType: string; destination: string; metadata: MessageMetadata },
  attempt: number,
  run: () => Promise<Result>,
): Promise<Result> {
  const parent: Context = propagation.extract(ROOT_CONTEXT, {
    traceparent: message.metadata.traceparent,
    tracestate: message.metadata.tracestate,
  });
  const tracer = trace.getTracer('whizbang', libraryVersion);
  return tracer.startActiveSpan(
    `process ${message.messageType}`,
    {
      kind: SpanKind.CONSUMER,
      attributes: {
        'messaging.system': 'whizbang',
        'messaging.operation.type': 'process',
        'messaging.destination.name': message.destination,
        'messaging.message.id': message.messageId,
        'whizbang.message_type': message.messageType,
        'whizbang.attempt': attempt,
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

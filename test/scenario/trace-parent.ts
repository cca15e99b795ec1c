import {
  type Context,
  type TextMapGetter,
  type TextMapPropagator,
  type TextMapSetter,
  trace,
} from '@opentelemetry/api';

/** W3C trace context, as far as the tests need it: the SDK's own propagator is in a package that nobody else wants here. */
export class TraceParent implements TextMapPropagator {
  inject(active: Context, carrier: unknown, setter: TextMapSetter): void {
    const span = trace.getSpanContext(active);
    if (span === undefined) return;
    setter.set(carrier, 'traceparent', `00-${span.traceId}-${span.spanId}-0${span.traceFlags}`);
    setter.set(carrier, 'tracestate', 'vendor=value');
  }

  extract(active: Context, carrier: unknown, getter: TextMapGetter): Context {
    const [, traceId, spanId, flags] = String(getter.get(carrier, 'traceparent')).split('-');
    if (traceId === undefined || spanId === undefined) return active;
    return trace.setSpanContext(active, { traceId, spanId, traceFlags: Number(flags), isRemote: true });
  }

  fields(): string[] {
    return ['traceparent', 'tracestate'];
  }
}

import { types } from 'node:util';
import { v7 } from 'uuid';
import { faithfulJson } from '../contract/faithful-json.js';
import type { PublishOptions } from '../contract/message-context.js';
import { type MessageDefinition, describeSchemaIssue } from '../contract/message-definition.js';
import type { MessageMetadata } from '../contract/message-metadata.js';
import { isEmptyUuid, isUuid, streamIdOf } from '../contract/stream-id.js';
import { MessageRefusedError } from '../errors/whizbang-error.js';
import { timestamp } from '../runtime/clock.js';
import { activeTraceContext } from '../telemetry/trace-context.js';
import type { NewOutboxMessage } from './outbox-store.js';

/** The message in whose handler another one is published. */
export interface Cause {
  readonly messageId: string;
  readonly correlationId: string;
}

// Service Bus: 128 characters for a session id, 64 KiB for all properties together with ours.
const maxStreamKeyLength = 128;
const maxHeaderBytes = 48 * 1024;
// CloudEvents attributes and brokers' own headers begin like this; a user's header may not pass for one.
const reservedHeader = /^(cloudevents[_:]|ce[_-]|x-death$|x-opt-)/i;
const headerName = /^[\x21-\x7e]{1,128}$/;

/**
 * Turns a payload into a row, or refuses it. Nothing has reached the database by then, so the caller's transaction can go on.
 *
 * @throws MessageRefusedError naming everything that is wrong
 */
export async function writeMessage(
  message: MessageDefinition,
  payload: unknown,
  options: PublishOptions,
  cause: Cause | undefined,
): Promise<NewOutboxMessage> {
  const issues: string[] = [];
  await checkSchema(message, payload, issues);
  const eventData = issues.length === 0 ? jsonOf(payload, issues) : '';
  const streamKey = issues.length === 0 ? streamKeyOf(message, payload, issues) : null;
  checkOptions(options, issues);
  if (issues.length > 0) {
    throw new MessageRefusedError(message.type, issues);
  }
  const messageId = (options.messageId ?? v7()).toLowerCase();
  const metadata: MessageMetadata = {
    ...(streamKey === null ? {} : { streamKey }),
    ...(options.headers === undefined || Object.keys(options.headers).length === 0 ? {} : { headers: options.headers }),
    correlationId: options.correlationId ?? cause?.correlationId ?? messageId,
    ...(cause === undefined ? {} : { causationId: cause.messageId }),
    ...activeTraceContext(),
    time: timestamp(),
  };
  return {
    messageId,
    destination: message.destination,
    messageType: message.type,
    eventData,
    metadata: JSON.stringify(metadata),
    streamId: streamKey === null ? null : streamIdOf(streamKey),
    scheduledFor: options.scheduledFor ?? null,
    serialize: message.serializeStreams === true,
  };
}

async function checkSchema(message: MessageDefinition, payload: unknown, issues: string[]): Promise<void> {
  const result = await message.schema['~standard'].validate(payload);
  issues.push(...(result.issues ?? []).map(describeSchemaIssue));
}

function jsonOf(payload: unknown, issues: string[]): string {
  try {
    return faithfulJson(payload);
  } catch (error) {
    issues.push(error instanceof Error ? error.message : String(error));
    return '';
  }
}

function streamKeyOf(message: MessageDefinition, payload: unknown, issues: string[]): string | null {
  const key = message.stream?.(payload) ?? null;
  if (key === null) {
    return null;
  }
  if (typeof key !== 'string' || key === '') {
    issues.push('the stream key must be a text that is not empty, or null for no stream');
  } else if (isEmptyUuid(key)) {
    issues.push('EmptyStreamId: the stream key is the all-zero UUID; use null for no stream');
  } else if (key.includes('\0') || !key.isWellFormed()) {
    issues.push('the stream key has a NUL character or a lone surrogate, which not every broker can carry');
  } else if (key.length > maxStreamKeyLength) {
    issues.push(
      `the stream key has ${key.length} characters; ${maxStreamKeyLength} is the most that every broker takes`,
    );
  }
  return key;
}

function checkOptions(options: PublishOptions, issues: string[]): void {
  if (options.messageId !== undefined && (!isUuid(options.messageId) || isEmptyUuid(options.messageId))) {
    issues.push('messageId must be a UUID');
  }
  if (options.correlationId !== undefined) {
    checkText('correlationId', options.correlationId, issues);
    if (options.correlationId.length > 128) {
      issues.push('correlationId has more than 128 characters');
    }
  }
  if (
    options.scheduledFor !== undefined &&
    !(types.isDate(options.scheduledFor) && Number.isFinite(options.scheduledFor.getTime()))
  ) {
    issues.push('scheduledFor is not a valid date');
  }
  let bytes = 0;
  for (const [name, value] of Object.entries(options.headers ?? {})) {
    if (!headerName.test(name) || reservedHeader.test(name)) {
      issues.push(
        `header name ${JSON.stringify(name.slice(0, 140))} must be 1 to 128 printable ASCII characters and not begin like a CloudEvents or broker header`,
      );
    }
    checkText(`header ${name.slice(0, 140)}`, value, issues);
    bytes += Buffer.byteLength(name) + Buffer.byteLength(String(value));
  }
  if (bytes > maxHeaderBytes) {
    issues.push(`the headers have ${bytes} bytes; ${maxHeaderBytes} is the most that every broker takes`);
  }
}

function checkText(what: string, value: unknown, issues: string[]): void {
  if (typeof value !== 'string') {
    issues.push(`${what} must be a string`);
  } else if (value.includes('\0') || !value.isWellFormed()) {
    issues.push(`${what} has a NUL character or a lone surrogate`);
  }
}

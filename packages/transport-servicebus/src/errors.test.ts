import { ServiceBusClient, ServiceBusError, type ServiceBusErrorCode } from '@azure/service-bus';
import { createServer } from 'node:net';
import { expect, test } from 'vitest';
import { classification } from './classification.js';
import { ServicebusError, askedToWaitMs, classify, isNoSession, rootOf, textOf } from './errors.js';

/** As the SDK throws it. */
const coded = (code: ServiceBusErrorCode, message = 'what the broker says'): Error =>
  new ServiceBusError(message, code);
const general = (...words: readonly string[]): Error[] =>
  words.map((word) => coded('GeneralError', `${word}: what the broker says`));
const named = (name: string, message: string, fields: object = {}): Error =>
  Object.assign(new Error(message), { name }, fields);
const condition = (name: string): unknown => ({ condition: name, description: 'what the broker says' });
const afterRetries = (...errors: readonly Error[]): Error => new AggregateError(errors, '');

const rows: Readonly<Record<keyof typeof classification, readonly unknown[]>> = {
  serverBusy: [
    coded('ServiceBusy'),
    condition('com.microsoft:server-busy'),
    afterRetries(coded('ServiceBusy'), coded('ServiceTimeout')),
  ],
  quotaExceeded: [coded('QuotaExceeded'), condition('amqp:resource-limit-exceeded')],
  noCredit: general('SenderBusyError', 'InsufficientCreditError'),
  messageSize: [coded('MessageSizeExceeded'), condition('amqp:link:message-size-exceeded')],
  unauthorized: [
    coded('UnauthorizedAccess'),
    condition('amqp:unauthorized-access'),
    condition('com.microsoft:auth-failed'),
  ],
  publisherRevoked: general('PublisherRevokedError'),
  noToken: [
    named('CredentialUnavailableError', 'no managed identity'),
    named('AuthenticationError', 'invalid client secret', { code: 'invalid_client' }),
    named('AuthenticationRequiredError', 'sign in'),
  ],
  tls: [
    named('Error', 'expired', { code: 'CERT_HAS_EXPIRED', syscall: 'connect' }),
    ...general('SELF_SIGNED_CERT_IN_CHAIN', 'ERR_TLS_CERT_ALTNAME_INVALID', 'EPROTO'),
  ],
  entityNotFound: [coded('MessagingEntityNotFound')],
  entityDisabled: [coded('MessagingEntityDisabled'), condition('com.microsoft:entity-disabled')],
  communication: [coded('ServiceCommunicationProblem')],
  unreachable: [
    ...general('ECONNREFUSED', 'ENOTFOUND', 'EAI_AGAIN', 'ECONNRESET'),
    named('Error', 'connect', { code: 'ECONNREFUSED', syscall: 'connect', errno: -111 }),
    Object.assign(coded('GeneralError', 'write failed'), { errno: -32, syscall: 'write' }),
    afterRetries(...general('ECONNREFUSED'), ...general('ECONNREFUSED')),
  ],
  brokerFault: general(
    'InternalServerError',
    'OperationCancelledError',
    'ConnectionForcedError',
    'DetachForcedError',
    'TransferLimitExceededError',
    'SenderNotReadyError',
  ),
  connectionClosed: [
    new Error('The underlying AMQP connection is closed.'),
    new Error('The sender for "orders" has been closed and can no longer be used. Please create a new sender.'),
    coded('GeneralError', 'Connection is reopening, aborting link initialization.'),
    named('AbortError', 'Link has been permanently closed. Not reopening.'),
  ],
  timeout: [coded('ServiceTimeout'), named('OperationTimeoutError', 'late'), afterRetries(coded('ServiceTimeout'))],
  linkLost: [new ServicebusError('the link was lost', classification.linkLost)],
  notAccepted: general('SendOperationFailedError'),
  lockLost: [
    coded('MessageLockLost'),
    coded('SessionLockLost'),
    coded('MessageNotFound'),
    new Error('Failed to complete the message as it has either been deleted or already settled.'),
  ],
  aborted: [named('AbortError', 'The operation was aborted.')],
  sessionTaken: [coded('SessionCannotBeLocked')],
  refused: general(
    'InvalidOperationError',
    'ArgumentError',
    'ArgumentOutOfRangeError',
    'PreconditionFailedError',
    'DecodeError',
    'IllegalStateError',
    'InvalidFieldError',
    'NotImplementedError',
  ),
  tooLong: [
    new Error("Length of 'messageId' property on the message cannot be greater than 128 characters."),
    new TypeError("The fields 'sessionId' and 'partitionKey' must have the same value."),
  ],
  notEncodable: [
    new TypeError("The property 'contentType' on the message must be of type 'string'"),
    new Error('An error occurred while executing JSON.stringify() on the given body [object Object]'),
  ],
  unknown: [new Error('something else'), coded('GeneralError', 'something else'), 'text', undefined, afterRetries()],
};

test.each(Object.entries(rows))('%s', (id, errors) => {
  const expected = classification[id as keyof typeof classification];
  for (const error of errors) {
    const { reason, retryable } = classify(error);
    expect({ error: textOf(error), reason, retryable }).toEqual({
      error: textOf(error),
      reason: expected.reason,
      retryable: expected.retryable,
    });
  }
});

test('of several attempts the last counts that says more than that nobody answered', () => {
  const busy = coded('ServiceBusy');
  const timeout = coded('ServiceTimeout');
  expect(rootOf(afterRetries(coded('QuotaExceeded'), busy, timeout))).toBe(busy);
  expect(rootOf(afterRetries(timeout, timeout))).toBe(timeout);
  expect(rootOf(afterRetries(afterRetries(busy), timeout))).toBe(busy);
});

test('how long the broker asks to wait', () => {
  const text =
    'The request was terminated because the namespace is being throttled. Please wait 2 seconds and try again.';
  expect(askedToWaitMs(coded('ServiceBusy', text))).toBe(2000);
  expect(askedToWaitMs(afterRetries(coded('ServiceBusy', text)))).toBe(2000);
  expect(askedToWaitMs({ condition: 'com.microsoft:server-busy', description: text })).toBe(2000);
  expect(askedToWaitMs(coded('ServiceBusy', 'busy'))).toBeUndefined();
});

test('no session to be had is no failure', () => {
  expect(isNoSession(coded('ServiceTimeout'))).toBe(true);
  expect(isNoSession(coded('SessionCannotBeLocked'))).toBe(true);
  expect(isNoSession(coded('MessagingEntityNotFound'))).toBe(false);
});

test('real errors of the SDK: nobody listens, a host that hangs up, and one that is not there', async () => {
  const server = createServer((socket) => socket.resume().end());
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as { port: number };
  const attempt = async (host: string): Promise<unknown> => {
    const text = `Endpoint=sb://${host};SharedAccessKeyName=root;SharedAccessKey=a2V5;UseDevelopmentEmulator=true`;
    const client = new ServiceBusClient(text, { retryOptions: { maxRetries: 0, timeoutInMs: 2000 } });
    const error = await client
      .createSender('orders')
      .createMessageBatch()
      .catch((thrown: unknown) => thrown);
    await client.close();
    return error;
  };
  const hungUp = classify(await attempt(`127.0.0.1:${port}`));
  await new Promise((resolve) => server.close(resolve));
  expect(classify(await attempt(`127.0.0.1:${port}`))).toBe(classification.unreachable);
  expect(classify(await attempt('nowhere.invalid:5671'))).toBe(classification.unreachable);
  expect(hungUp.retryable).toBe(true);
});

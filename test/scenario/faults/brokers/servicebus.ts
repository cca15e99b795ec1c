import { withAdministration } from '../../../fixtures/index.js';
import { TcpGate } from '../../../fixtures/network/tcp-gate.js';
import { conditions } from '../../../fixtures/servicebus/stand-in/conditions.js';
import type { Fault as StandInFault } from '../../../fixtures/servicebus/stand-in/faults.js';
import { ServicebusStandIn } from '../../../fixtures/servicebus/stand-in/stand-in.js';
import type { FaultBrokerKind } from '../fault-broker.js';
import type { Fault } from '../fault.js';
import type { Random } from '../random.js';

interface Refusal {
  readonly name: string;
  readonly on: StandInFault['on'];
  readonly effect: (random: Random) => StandInFault['effect'];
  /** How often it strikes, at the most. Default: as long as it lasts. */
  readonly most?: number;
}

const refusals: readonly Refusal[] = [
  { name: 'throttled', on: 'send', effect: () => ({ kind: 'refuse', error: conditions.serverBusy(1) }) },
  { name: 'internal error', on: 'send', effect: () => ({ kind: 'refuse', error: conditions.internalError() }) },
  { name: 'send unanswered', on: 'send', effect: (random) => ({ kind: 'silence', applied: random.percent(50) }) },
  { name: 'send late', on: 'send', effect: (random) => ({ kind: 'delay', ms: random.between(100, 2_500) }) },
  { name: 'cut at a send', on: 'send', most: 3, effect: (random) => ({ kind: 'cut', applied: random.percent(50) }) },
  {
    name: 'link detached at a send',
    on: 'send',
    most: 3,
    effect: (random) => ({ kind: 'detach', error: conditions.detachForced(), applied: random.percent(50) }),
  },
  {
    name: 'unauthorized',
    on: 'attach-sender',
    effect: () => ({ kind: 'refuse', error: conditions.unauthorized('orders') }),
  },
  { name: 'no receiver', on: 'attach-receiver', effect: () => ({ kind: 'refuse', error: conditions.internalError() }) },
  { name: 'nothing delivered', on: 'deliver', effect: () => ({ kind: 'silence' }) },
  { name: 'cut at a delivery', on: 'deliver', most: 3, effect: () => ({ kind: 'cut' }) },
  { name: 'settlement refused', on: 'settle', effect: () => ({ kind: 'refuse', error: conditions.internalError() }) },
  { name: 'token refused', on: 'token', effect: () => ({ kind: 'refuse', error: conditions.invalidSignature() }) },
];

export const servicebus: FaultBrokerKind = {
  name: 'Service Bus',
  start: async (destination) => {
    const standIn = await ServicebusStandIn.start();
    await standIn.createTopic(destination);
    const inspection = standIn.inspect(destination);
    const { port } = new URL(/Endpoint=(sb:[^;]*)/.exec(standIn.connectionString)?.[1] ?? '');
    const subscription = `${destination}/Subscriptions/shipping`;
    const repeats = true;
    const faults: Fault[] = [
      {
        name: 'Service Bus away',
        weight: 3,
        lasts: [0, 4_000],
        repeats,
        strike: async () => {
          let comeBack = (): void => undefined;
          const outage = standIn.outage(() => new Promise((resolve) => (comeBack = resolve)));
          return {
            on: 'the namespace',
            undo: async () => {
              comeBack();
              await outage;
            },
          };
        },
      },
      {
        name: 'Service Bus: locks lost',
        weight: 3,
        lasts: [0, 500],
        repeats,
        strike: async () => {
          standIn.loseLocks(subscription);
          return { on: subscription, undo: async () => undefined };
        },
      },
      ...refusals.map(({ name, on, effect, most }): Fault => ({
        name: `Service Bus: ${name}`,
        weight: 1,
        lasts: [300, 4_000],
        repeats,
        strike: async (_, random) => {
          const injected = standIn.faults.inject({
            on,
            effect: effect(random),
            ...(most === undefined ? {} : { times: random.between(1, most) }),
          });
          return { on, undo: async () => injected.clear() };
        },
      })),
    ];
    return {
      brokerOptions: {
        sendTimeoutMs: 2_000,
        connectTimeoutMs: 2_000,
        silenceMs: 2_000,
        lockRenewalMs: 1_000,
        throttlePauseMs: 500,
        reconnectDelayMs: 50,
        reconnectMaxDelayMs: 1_000,
      },
      faults,
      way: async () => {
        const gate = new TcpGate({ host: '127.0.0.1', port: Number(port) });
        await gate.open();
        return { url: withAdministration(standIn).replace(`127.0.0.1:${port}`, `127.0.0.1:${gate.port}`), gate };
      },
      seen: async () =>
        inspection.messages().map(({ messageId, body }) => ({ messageId: messageId ?? '', body: body.toString() })),
      leftovers: async () => {
        const queue = standIn.namespace.findQueue(subscription);
        const [ready, receivers] = [queue?.readyCount ?? 0, queue?.receiverCount ?? 0];
        return [
          ...(ready === 0 ? [] : [`${ready} messages in ${subscription}`]),
          ...(receivers === 0 ? [] : [`${receivers} receivers of ${subscription}`]),
        ];
      },
      stop: () => standIn.stop(),
    };
  },
};

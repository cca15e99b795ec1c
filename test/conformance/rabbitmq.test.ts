import { describeTransport } from './index.js';
import { rabbitmqFixture } from './rabbitmq-fixture.js';
import { rabbitmqRestartFixture } from './rabbitmq-restart-fixture.js';

describeTransport('RabbitMQ transport', [
  rabbitmqFixture('classic', { queueType: 'classic' }),
  rabbitmqFixture('quorum', { queueType: 'quorum' }),
  rabbitmqFixture('declaring nothing, dropping the unroutable', {
    queueType: 'classic',
    declare: false,
    mandatory: false,
  }),
  rabbitmqRestartFixture('classic'),
  rabbitmqRestartFixture('quorum'),
]);

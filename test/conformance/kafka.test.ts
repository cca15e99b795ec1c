import { describeTransport } from './index.js';
import { kafkaFixture } from './kafka-fixture.js';
import { kafkaRestartFixture } from './kafka-restart-fixture.js';

describeTransport('Kafka transport', [
  kafkaFixture('one partition', { partitions: 1 }),
  kafkaFixture('three partitions', { partitions: 3 }),
  kafkaFixture('three partitions, declaring nothing', { partitions: 3, declare: false }),
  kafkaRestartFixture(),
]);

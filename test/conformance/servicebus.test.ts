import { describeTransport } from './index.js';
import { servicebusFixture } from './servicebus-fixture.js';

describeTransport('Service Bus transport', [
  servicebusFixture('sessions, declaring nothing', { declare: false }),
  servicebusFixture('topic without sessions', { sessions: false, declare: false }),
  servicebusFixture('queue', { entity: 'queue', declare: false }),
]);

import { describeTransport } from './index.js';
import { servicebusFixture } from './servicebus-fixture.js';

describeTransport('Service Bus transport', [
  servicebusFixture('topic with sessions', {}),
  servicebusFixture('topic without sessions', { sessions: false }),
  servicebusFixture('queue with sessions', { entity: 'queue' }),
  servicebusFixture('queue without sessions', { entity: 'queue', sessions: false }),
  servicebusFixture('declaring nothing', { declare: false }),
]);

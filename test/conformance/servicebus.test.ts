import { describeTransport } from './index.js';
import { servicebusFixture } from './servicebus-fixture.js';

describeTransport('Service Bus transport', [
  servicebusFixture('sessions, declaring nothing', { declare: false }),
]);

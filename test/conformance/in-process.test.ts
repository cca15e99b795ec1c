import { inProcessFixture } from './in-process-fixture.js';
import { describeTransport } from './index.js';

describeTransport('in-process transport', [
  inProcessFixture('limited', { maxMessageBytes: 2_000_000 }),
  inProcessFixture('unlimited'),
  inProcessFixture('lenient', { mandatory: false }),
  inProcessFixture('without creating topology', { declare: false }),
]);

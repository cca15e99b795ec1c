// A service whose handler ends its own process at one message, and says what it handled before and after.
import { createWhizbang, defineMessage } from '@whizbang/core';
import { z } from 'zod';

const say = (message: object) => process.stdout.write(`${JSON.stringify(message)}\n`);
const Numbered = defineMessage('numbered', { schema: z.object({ n: z.number() }), destination: 'numbers' });

const whizbang = await createWhizbang({
  service: 'shipping',
  database: process.env['DATABASE_URL'] ?? '',
  broker: 'memory:',
  messages: [Numbered],
  leaseSeconds: 1,
  publisher: { enabled: false },
  receiver: { enabled: false },
  dispatcher: { retainCompleted: true },
  deadLetters: { enabled: false },
  wakeups: { safetyPollMs: 200 },
});
whizbang.handle(Numbered, ({ n }) => {
  if (n === Number(process.env['POISON'])) {
    if (process.env['DEATH'] === 'exit') process.exit(1);
    process.kill(process.pid, 'SIGKILL');
    // Not a step further, as when memory has run out.
    for (;;);
  }
  say({ handled: n });
});
await whizbang.start();

import type { ConformanceCheck } from './check.js';
import { extremes } from './themes/extremes.js';
import { faithful } from './themes/faithful.js';
import { lifecycle } from './themes/lifecycle.js';
import { order } from './themes/order.js';
import { outage } from './themes/outage.js';
import { outageReceiving } from './themes/outage-receiving.js';
import { publishing } from './themes/publishing.js';
import { receiving } from './themes/receiving.js';
import { redelivery } from './themes/redelivery.js';
import { refusals } from './themes/refusals.js';
import { longAbsence, restart } from './themes/restart.js';
import { sharing } from './themes/sharing.js';
import { trouble } from './themes/trouble.js';

/** Everything that a transport has to hold, theme by theme. */
export const conformanceChecks: readonly ConformanceCheck[] = [
  ...lifecycle,
  ...publishing,
  ...order,
  ...faithful,
  ...extremes,
  ...receiving,
  ...redelivery,
  ...sharing,
  ...refusals,
  ...outage,
  ...outageReceiving,
  ...restart,
  ...longAbsence,
  ...trouble,
];

// Writes what the documents say about transports from what the transports say themselves, and what they say about speed from
// what was measured; needs a build.
//   node scripts/generate-docs.mjs           writes docs/errors.md, the matrix in README.md, the tables of docs/performance.md
//   node scripts/generate-docs.mjs --check   writes nothing, fails when one is out of date
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';

import { withResults } from './performance-tables.mjs';

const root = fileURLToPath(new URL('..', import.meta.url));
const load = (path) => import(pathToFileURL(join(root, path)).href);

const brokers = [
  { broker: 'RabbitMQ', folder: 'packages/transport-rabbitmq' },
  { broker: 'Kafka', folder: 'packages/transport-kafka' },
  { broker: 'Azure Service Bus', folder: 'packages/transport-servicebus' },
];

const namespace = 'Endpoint=sb://localhost;SharedAccessKeyName=name;SharedAccessKey=a2V5';
const adapter = (name, connectionString, options) => async () =>
  (await load(`packages/transport-${name}/dist/index.js`)).createTransport(connectionString, options);

/** One column of the matrix each. No connection is made. */
const columns = [
  { name: 'RabbitMQ', create: adapter('rabbitmq', 'amqp://localhost') },
  { name: 'Kafka', create: adapter('kafka', 'kafka://localhost') },
  { name: 'Service Bus', create: adapter('servicebus', namespace) },
  { name: 'Service Bus, `sessions: false`', create: adapter('servicebus', namespace, { sessions: false }) },
  {
    name: 'in-process',
    create: async () => (await load('packages/core/dist/testing.js')).createInProcessTransport('memory:matrix'),
  },
];

/** Every capability has a line; one that is missing here stops the generator. */
const meanings = {
  durable: 'Messages survive a restart of the broker',
  orderedStreams: 'Order within a stream, to the broker and from it',
  atomicGroups: 'Several messages of one stream in one batch',
  reportsUnroutable: 'A message that no service receives is reported',
  fanOut: 'Every service that subscribes gets every message',
  competingConsumers: 'Instances that receive without order share message by message',
  createsTopology: 'Creates what is missing at the broker',
  maxMessageBytes: 'Largest body in bytes',
};

function cell(value) {
  if (value === true) return 'yes';
  if (value === false) return 'no';
  return value === null ? "the broker's own limit, if any" : value.toLocaleString('en-US');
}

function table(head, rows) {
  const line = (cells) => `| ${cells.join(' | ')} |`;
  return [line(head), line(head.map(() => '---')), ...rows.map(line)].join('\n');
}

async function matrix() {
  const transports = await Promise.all(
    columns.map(async ({ name, create }) => {
      const transport = await create();
      const capabilities = { ...transport.capabilities };
      await transport.close();
      return { name, capabilities };
    }),
  );
  for (const { name, capabilities } of transports) {
    const unknown = Object.keys(capabilities).filter((capability) => !Object.hasOwn(meanings, capability));
    if (unknown.length > 0)
      throw new Error(`${name} has capabilities without a line in the matrix: ${unknown.join(', ')}`);
  }
  const rows = Object.entries(meanings).map(([capability, meaning]) => [
    `${meaning} (\`${capability}\`)`,
    ...transports.map(({ capabilities }) => cell(capabilities[capability])),
  ]);
  return table(['', ...transports.map(({ name }) => name)], rows);
}

async function errorsPage() {
  const { failureReasonName } = await load('packages/core/dist/transport.js');
  const escaped = (text) => text.replaceAll('|', String.raw`\|`);
  const parts = await Promise.all(
    brokers.map(async ({ broker, folder }) => {
      const { classification } = await load(`${folder}/dist/classification.js`);
      const rows = Object.values(classification).map(({ condition, reason, retryable }) => [
        escaped(condition),
        `\`${failureReasonName(reason)}\``,
        retryable ? 'yes' : 'no',
      ]);
      return `## ${broker}\n\n${table(['What the broker or its client says', 'Recorded as', 'Retried'], rows)}`;
    }),
  );
  return `# What each broker says, and what it is recorded as

Generated from the classification tables of the transports by \`npm run generate:docs\`; the code classifies by the same tables.
"Retried: no" means that the same bytes cannot succeed without a change of code, message or configuration: such a message goes to
the dead letters at once, with this reason, unless \`deadLetters.permanentReasons\` says otherwise.
What the reasons mean is told in [failure handling](failure-handling.md).

${parts.join('\n\n')}
`;
}

const begin = '<!-- generated: capability matrix -->';
const end = '<!-- end of generated -->';

function withMatrix(readme, text) {
  const [before, rest] = readme.split(begin);
  const after = rest?.split(end)[1];
  if (after === undefined) throw new Error(`README.md has lost the marks ${begin} and ${end}.`);
  return `${before}${begin}\n\n${text}\n\n${end}${after}`;
}

const readme = readFileSync(join(root, 'README.md'), 'utf8');
const performancePage = readFileSync(join(root, 'docs/performance.md'), 'utf8');
const generated = {
  'docs/errors.md': await errorsPage(),
  'README.md': withMatrix(readme, await matrix()),
  'docs/performance.md': withResults(root, performancePage),
};
for (const [path, text] of Object.entries(generated)) {
  const file = join(root, path);
  if (existsSync(file) && readFileSync(file, 'utf8') === text) continue;
  if (process.argv.includes('--check')) {
    console.error(`${path} is stale: run npm run generate:docs and commit it.`);
    process.exitCode = 1;
  } else {
    writeFileSync(file, text);
    console.log(`Wrote ${path}.`);
  }
}

import { mkdtemp, realpath, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

import { build } from 'vite';
import { expect, test } from 'vitest';

import { testBroker, testDatabase, testProgram } from '../fixtures/test-services.js';
import { atEnd } from './test-service.js';

/** An application as its author writes it; the transport comes as an object, because a bundle has no packages to look for. */
const application = `
import { createWhizbang, defineMessage } from '@whizbang/core';
import { createTransport } from '@whizbang/transport-rabbitmq';

const schema = { '~standard': { version: 1, vendor: 'test', validate: (value) => ({ value }) } };
const Noted = defineMessage('notes.noted', { schema, destination: 'notes' });
async function run() {
  const whizbang = await createWhizbang({
    service: 'bundled',
    database: process.env.DATABASE_URL,
    broker: createTransport(process.env.BROKER_URL),
  });
  const applied = (await whizbang.migrate()).applied.length;
  await new Promise(async (resolve, reject) => {
    whizbang.handle(Noted, (note) => resolve(console.log(JSON.stringify({ applied, note }))));
    await whizbang.start().catch(reject);
    await whizbang.publishNow(Noted, { text: 'from a bundle' }).catch(reject);
  });
  await whizbang.stop();
}
void run();
`;

test.each([
  ['ES module', 'es', 'mjs'],
  ['CommonJS', 'cjs', 'cjs'],
] as const)(
  'an application in one file (%s), in an empty folder, migrates, publishes and handles',
  async (_, format, extension) => {
    const [{ url }, broker] = await Promise.all([testDatabase(), testBroker()]);
    const folder = await realpath(await mkdtemp(join(tmpdir(), 'whizbang-bundle-')));
    atEnd(() => rm(folder, { recursive: true }));
    const root = fileURLToPath(new URL('..', import.meta.url));
    const entry = '\0application';
    await build({
      configFile: false,
      root,
      logLevel: 'error',
      plugins: [
        {
          name: 'application',
          // As if it lay in this folder, from where the packages are found.
          resolveId: (id, importer) =>
            id === 'application' ? entry : importer === entry ? fileURLToPath(import.meta.resolve(id)) : null,
          load: (id) => (id === entry ? application : null),
        },
      ],
      ssr: { noExternal: true, target: 'node' },
      build: {
        ssr: true,
        write: true,
        outDir: folder,
        emptyOutDir: false,
        minify: true,
        target: 'node20',
        rolldownOptions: {
          input: 'application',
          // The one that node-postgres looks for and does without.
          external: ['pg-native'],
          output: { format, entryFileNames: `application.${extension}`, codeSplitting: false },
        },
      },
    });
    await writeFile(join(folder, 'package.json'), '{}');
    const program = testProgram(join(folder, `application.${extension}`), {
      DATABASE_URL: url,
      BROKER_URL: broker.url,
      NODE_PATH: '',
    });
    expect(await program.exited, `output: ${program.output}`).toEqual({ code: 0, signal: null });
    expect(program.messages).toEqual([{ applied: expect.any(Number) as number, note: { text: 'from a bundle' } }]);
    expect(program.messages[0]?.['applied']).toBeGreaterThan(20);
  },
  120_000,
);

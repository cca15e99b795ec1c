import { mkdtemp, realpath, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

import { expect, test } from 'vitest';
import { build } from 'vite';

import { testDatabase, testProgram } from '../fixtures/test-services.js';
import { atEnd } from './test-service.js';

const here = fileURLToPath(new URL('..', import.meta.url));

async function emptyFolder(): Promise<string> {
  const folder = await realpath(await mkdtemp(join(tmpdir(), 'whizbang loading ')));
  atEnd(() => rm(folder, { recursive: true }));
  return folder;
}

test('each entry is loaded by import and by require, without flags', async () => {
  const folder = await emptyFolder();
  const entries = [
    '@whizbang/core',
    '@whizbang/core/transport',
    '@whizbang/core/testing',
    '@whizbang/transport-rabbitmq',
    '@whizbang/transport-kafka',
    '@whizbang/transport-servicebus',
  ];
  await writeFile(
    join(folder, 'loads.cjs'),
    `const { createRequire } = require('node:module');
     const { pathToFileURL } = require('node:url');
     const from = createRequire(${JSON.stringify(join(here, 'package.json'))});
     (async () => {
       for (const entry of ${JSON.stringify(entries)}) {
         const imported = await import(pathToFileURL(from.resolve(entry)).href);
         const required = from(entry);
         console.log(JSON.stringify({ entry, names: Object.keys(required).length, same: Object.keys(required).every((name) => required[name] === imported[name]) }));
       }
     })();`,
  );
  const program = testProgram(join(folder, 'loads.cjs'), { NODE_PATH: '', NODE_OPTIONS: '' });
  expect(await program.exited, program.output).toEqual({ code: 0, signal: null });
  expect(program.messages.map(({ entry, same }) => ({ entry, same }))).toEqual(
    entries.map((entry) => ({ entry, same: true })),
  );
  for (const { names } of program.messages) expect(names).toBeGreaterThan(0);
});

test('a bundle of one file, in an empty folder, migrates, publishes and handles', async () => {
  const { url } = await testDatabase();
  const folder = await emptyFolder();
  await writeFile(
    join(folder, 'source.mjs'),
    `import { createWhizbang, defineMessage } from '@whizbang/core';
     import { createInProcessTransport } from '@whizbang/core/testing';
     const schema = { '~standard': { version: 1, vendor: 'none', validate: (value) => ({ value }) } };
     const Note = defineMessage('note', { schema, destination: 'notes' });
     const whizbang = await createWhizbang({
       service: 'bundled', database: process.env.DATABASE_URL, broker: createInProcessTransport('memory:bundled'),
     });
     const handled = new Promise((resolve) => whizbang.handle(Note, resolve));
     const { applied } = await whizbang.migrate();
     await whizbang.start();
     await whizbang.publishNow(Note, { text: 'bundled' });
     console.log(JSON.stringify({ applied: applied.length, handled: await handled }));
     await whizbang.stop();`,
  );
  await build({
    root: here,
    configFile: false,
    logLevel: 'silent',
    ssr: { noExternal: true },
    resolve: { preserveSymlinks: false },
    plugins: [
      {
        // The source is far from here, and knows no packages.
        name: 'from-the-test',
        resolveId(id: string, importer: string | undefined) {
          return importer?.startsWith(folder) === true && id.startsWith('@')
            ? this.resolve(id, join(here, 'package.json'), { skipSelf: true })
            : null;
        },
      },
    ],
    build: {
      ssr: join(folder, 'source.mjs'),
      outDir: join(folder, 'out'),
      target: 'node20',
      rolldownOptions: { external: ['pg-native', 'pg-cloudflare'], output: { entryFileNames: 'program.mjs' } },
    },
  });
  await rm(join(folder, 'source.mjs'));
  const bundled = testProgram(join(folder, 'out/program.mjs'), { NODE_PATH: '', DATABASE_URL: url });
  expect(await bundled.exited, bundled.output).toEqual({ code: 0, signal: null });
  expect(bundled.messages).toEqual([{ applied: expect.any(Number) as number, handled: { text: 'bundled' } }]);
});

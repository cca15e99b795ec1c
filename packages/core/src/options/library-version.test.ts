import { readFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import { libraryVersion } from './library-version.js';

test('the version that the library knows is the one that it is published as', () => {
  const manifest = JSON.parse(readFileSync(new URL('../../package.json', import.meta.url), 'utf8')) as {
    version: string;
  };
  expect(libraryVersion).toBe(manifest.version);
});

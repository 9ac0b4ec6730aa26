/** The tests with real agents: run by `npm run test:agents` only, one file after the other, for each is a heavy program. */
import { dirname } from 'node:path'
import { fileURLToPath } from 'node:url'
import base from '../../jest.config.mjs'

export default {
  ...base,
  rootDir: dirname(dirname(dirname(fileURLToPath(import.meta.url)))),
  testMatch: ['<rootDir>/test/agents-real/**/*.real.ts'],
  testTimeout: 120_000,
  maxWorkers: 1,
}

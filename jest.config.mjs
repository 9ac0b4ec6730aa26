/** Tests run as ES modules straight from the TypeScript sources; `npm run jest` adds the flag this needs. */
import { packagesMapped } from './build/packages.mjs'

/** `-t` picks tests by name; through sockets some conversations are skipped. */
const someTestsOnly =
  process.env.TALK === 'sockets' || process.argv.some((arg) => /^(-t|--testNamePattern)/.test(arg))

/**
 * Waits end this many times later than the tests say (`until.ts`, the environment of the tests, `browser.ts`), because
 * only a failing test waits so long, and a machine that checks changes may be ten times slower than one's own.
 */
process.env.PATIENCE ??= process.env.CI ? '6' : '1'

export default {
  testMatch: ['<rootDir>/test/**/*.test.ts'],
  // Data directories hold checkouts of repositories, with tests and packages of their own.
  modulePathIgnorePatterns: ['<rootDir>/\\.data', '<rootDir>/\\.agents', '<rootDir>/\\.nodes'],
  extensionsToTreatAsEsm: ['.ts'],
  transform: {
    '^.+\\.ts$': [
      '@swc/jest',
      {
        jsc: { target: 'es2022', parser: { syntax: 'typescript' } },
        module: { type: 'es6' },
        sourceMaps: 'inline',
      },
    ],
  },
  injectGlobals: false,
  // Recorded expectations that no test asks for are an error, unless only some tests run.
  globals: someTestsOnly ? { TESTS_ARE_FILTERED: true } : {},
  moduleNameMapper: {
    ...(await packagesMapped()),
    '^fast-check$': '<rootDir>/test/support/seeded-fast-check.mjs',
    '^lmdb$': '<rootDir>/test/support/lmdb.mjs',
  },
  globalSetup: '<rootDir>/test/support/build-once.mjs',
  testSequencer: '<rootDir>/test/support/slowest-first.mjs',
  testEnvironment: '<rootDir>/test/support/test-environment.mjs',
  testTimeout: 150_000 * Number(process.env.PATIENCE),
  workerIdleMemoryLimit: '768MB',
  // More than the two processors: many tests wait for other processes most of the time.
  maxWorkers: 5,
}

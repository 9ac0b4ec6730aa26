import { expect, test } from '@jest/globals'
import { EXIT } from '../../../bin/process/exit.ts'
import { classifyExit, describeExit } from '../../../core/fleet/local-worker.ts'

test.each([
  ['stopped by somebody', { code: EXIT.done }, 'died'],
  ['its credential was refused', { code: EXIT.notAccepted }, 'unauthorized'],
  ['another daemon in its folder', { code: EXIT.inUse }, 'died'],
  ['broken', { code: EXIT.broken }, 'died'],
  ['killed', { signal: 'SIGKILL' }, 'died'],
  ['a command line that was refused', { code: EXIT.usage }, 'unrecoverable'],
  ['data of a newer version', { code: EXIT.dataTooNew }, 'unrecoverable'],
  ['no sandbox', { code: EXIT.unavailable }, 'unrecoverable'],
  ['another protocol', { code: EXIT.protocol }, 'unrecoverable'],
] as const)('%s', (_what, end, ending) => {
  expect(classifyExit(end)).toBe(ending)
  expect(describeExit(end)).toMatch(/\w+ \w+/)
})

import { expect, test } from '@jest/globals'
import { EXIT } from '../../../bin/exit.ts'
import { describedEnd, localEnding } from '../../../core/fleet/local-worker-exit.ts'

test.each([
  ['stopped by somebody', { code: EXIT.done }, 'died'],
  ['its credential was refused', { code: EXIT.unwelcome }, 'turned away'],
  ['another daemon in its folder', { code: EXIT.taken }, 'died'],
  ['broken', { code: EXIT.broken }, 'died'],
  ['killed', { signal: 'SIGKILL' }, 'died'],
  ['a command line that was refused', { code: EXIT.usage }, 'hopeless'],
  ['data of a newer version', { code: EXIT.dataTooNew }, 'hopeless'],
  ['no sandbox', { code: EXIT.unavailable }, 'hopeless'],
  ['another protocol', { code: EXIT.protocol }, 'hopeless'],
] as const)('%s', (_what, end, ending) => {
  expect(localEnding(end)).toBe(ending)
  expect(describedEnd(end)).toMatch(/\w+ \w+/)
})

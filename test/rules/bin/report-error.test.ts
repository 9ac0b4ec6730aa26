/** The message for the person about the error that ended a command. */
import { expect, test } from '@jest/globals'
import { reportError } from '../../../bin/process/report-error.ts'

function report(error: unknown, isDebugging = false) {
  const printed: (readonly [string, string | undefined])[] = []
  const output = {
    format: 'table',
    error: (message: string, cure?: string) => void printed.push([message, cure]),
  }
  const code = reportError(error, output as Parameters<typeof reportError>[1], isDebugging)
  return { code, printed }
}

test('a bug is one sentence and a cure, and shows its place in the code only with --debug', () => {
  const { code, printed } = report(new TypeError('x is not a function'))
  expect([code, printed]).toEqual([
    70,
    [['this failed unexpectedly: x is not a function', expect.stringMatching(/^switchyard doctor; .*DEBUG/)]],
  ])
  expect(report(new TypeError('x is not a function'), true).printed[0]?.[0]).toMatch(/\n +at /)
})

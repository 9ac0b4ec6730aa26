/**
 * The conversation tests of the worker channel, repeated through the production listeners and real connections. The tests
 * show that the listeners deliver every frame completely and in order.
 */
import { spawn } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { expect, test } from '@jest/globals'

const root = dirname(dirname(dirname(fileURLToPath(import.meta.url))))
const TOPICS = ['registration', 'dispatch', 'frames', 'revocation', 'silence', 'usage']
/** Slightly below the real number, so that skipped tests are noticed. */
const PASSED_MIN = 165
/** Several times the duration on a busy machine. */
const MS_MAX = 400_000

/** The command of `npm run jest`, so that its flags are defined only once. */
function jestCommand(): string[] {
  const { scripts } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'))
  return scripts.jest.split(' ').slice(1)
}

interface Ended {
  readonly code: number | null
  readonly out: string
  readonly err: string
}

function runThroughSockets(): Promise<Ended> {
  const topics = TOPICS.map((topic) => `test/conversations/${topic}.test.ts`)
  const args = [...jestCommand(), '--runInBand', '--json', ...topics]
  const env = { ...process.env, TALK: 'sockets', NODE_OPTIONS: '' }
  const child = spawn(process.execPath, args, { cwd: root, env, timeout: MS_MAX })
  let out = ''
  let err = ''
  child.stdout.setEncoding('utf8').on('data', (text: string) => {
    out += text
  })
  child.stderr.setEncoding('utf8').on('data', (text: string) => {
    err += text
  })
  return new Promise((resolve, reject) => {
    child.on('error', reject)
    child.on('close', (code) => resolve({ code, out, err }))
  })
}

test(
  'host and workers exchange the same frames over real sockets',
  async () => {
    const { code, out, err } = await runThroughSockets()
    expect({ code, ...(code === 0 ? {} : { err }) }).toEqual({ code: 0 })
    const { numPassedTests, numPassedTestSuites } = JSON.parse(out)
    expect(numPassedTestSuites).toBe(TOPICS.length)
    expect(numPassedTests).toBeGreaterThanOrEqual(PASSED_MIN)
  },
  MS_MAX + 10_000,
)

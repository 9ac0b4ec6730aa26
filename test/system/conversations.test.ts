/**
 * The conversations of the worker channel once more, this time through the production doors and real connections.
 *
 * In the hand they show what the host says; here, that the doors carry all of it, whole and in order.
 */
import { spawn } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { expect, test } from '@jest/globals'

const root = dirname(dirname(dirname(fileURLToPath(import.meta.url))))
const TOPICS = ['registration', 'dispatch', 'frames', 'revocation', 'silence', 'usage']
/** Somewhat fewer than there are: what is skipped without anybody noticing tests nothing. */
const PASSED_MIN = 165
/** Several times what it takes on a machine that is busy with other things. */
const MS_MAX = 400_000

/** What `npm run jest` runs: the flags are kept in one place only. */
function jestCommand(): string[] {
  const { scripts } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'))
  return scripts.jest.split(' ').slice(1)
}

interface Ended {
  readonly code: number | null
  readonly out: string
  readonly err: string
}

function throughSockets(): Promise<Ended> {
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
  'what is said between a host and its workers is the same through real sockets',
  async () => {
    const { code, out, err } = await throughSockets()
    expect({ code, ...(code === 0 ? {} : { err }) }).toEqual({ code: 0 })
    const { numPassedTests, numPassedTestSuites } = JSON.parse(out)
    expect(numPassedTestSuites).toBe(TOPICS.length)
    expect(numPassedTests).toBeGreaterThanOrEqual(PASSED_MIN)
  },
  MS_MAX + 10_000,
)

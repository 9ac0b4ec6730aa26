/** Options that all long-running commands have in common, as real processes. */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, test } from '@jest/globals'
import {
  type CommandProcess,
  commandPath,
  configWithAnyPort,
  runCommand,
} from '../support/command-process.ts'
import { tempFolder } from '../support/temp-folder.ts'
import { until } from '../support/until.ts'

/** An address of this machine that counts as another one's, where nobody listens. */
const ELSEWHERE = 'http://0.0.0.0:1'
const GREETING = /switchyard is (working|supervising)|(helper|dashboard|inspector) is serving/
const PAIRING_TOKEN = `wp-${'a'.repeat(43)}`
const HELPER_ENV = { CODEHOST_CLIENT_ID: 'a', TRACKER_CLIENT_ID: 'b', TRACKER_CLIENT_SECRET: 'c' }

function startWorker(...args: readonly string[]): CommandProcess {
  const folder = tempFolder()
  const tokenFile = join(folder, 'token')
  writeFileSync(tokenFile, PAIRING_TOKEN, { mode: 0o600 })
  const dataDir = join(folder, 'worker')
  return runCommand(['worker', '--token-file', tokenFile, '--data-dir', dataDir, ...args], dataDir)
}

const startHelper = (...args: readonly string[]): CommandProcess =>
  runCommand(['oauth-helper', '--port', '0', ...args], '', HELPER_ENV)

const startSupervisor = (...args: readonly string[]): CommandProcess =>
  runCommand([
    'supervise',
    '--driver',
    'command',
    '--stop-command',
    'false',
    '--data-dir',
    tempFolder(),
    ...args,
  ])

test('--insecure of a supervisor and of worker drain allows a line without encryption', async () => {
  const careful = startSupervisor('--host', ELSEWHERE)
  expect([await careful.exit, careful.err()]).toEqual([2, expect.stringContaining('--insecure')])
  const trusting = startSupervisor('--host', ELSEWHERE, '--insecure')
  await until('the supervisor asks', () => GREETING.test(trusting.err()))
  const drain = (...args: readonly string[]) =>
    runCommand(['worker', 'drain', '--data-dir', tempFolder(), '--host', ELSEWHERE, ...args])
  const [refused, lost] = [drain(), drain('--insecure')]
  expect([await refused.exit, refused.err()]).toEqual([2, expect.stringContaining('--insecure')])
  expect([await lost.exit, lost.err()]).toEqual([
    2,
    expect.stringMatching(
      /no worker of the data directory \S+ is enrolled\n {2}try: switchyard workers pair .*: switchyard worker --host http:\/\/0\.0\.0\.0:1 --token-file FILE --data-dir \S+\n$/,
    ),
  ])
})

test('worker --insecure allows a line without encryption to another machine', async () => {
  const careful = startWorker('--host', ELSEWHERE)
  expect([await careful.exit, careful.err()]).toEqual([2, expect.stringContaining('--insecure')])
  const trusting = startWorker('--host', ELSEWHERE, '--insecure')
  await until('the worker dials', () => GREETING.test(trusting.err()))
})

describe('the log', () => {
  const starts = [
    ['worker', (...args: readonly string[]) => startWorker('--host', 'http://127.0.0.1:1', ...args)],
    ['oauth-helper', startHelper],
    [
      'dashboard',
      (...args: readonly string[]) => runCommand(['dashboard', '--no-open', '--port', '0', ...args]),
    ],
    ['inspect', (...args: readonly string[]) => runCommand(['inspect', '--no-open', '--port', '0', ...args])],
    ['supervise', (...args: readonly string[]) => startSupervisor('--host', 'http://127.0.0.1:1', ...args)],
  ] as const

  test.each(starts)(
    'of %s is for people or JSON, as --log-format says, with nothing below its --log-level',
    async (_, start) => {
      const [human, json] = [start('--log-format', 'human'), start('--log-format', 'json')]
      const silent = start('--log-level', 'error')
      await until('both have logged', () => [human, json].every((each) => GREETING.test(each.err())))
      expect(human.err()).not.toMatch(/^\{/m)
      for (const line of json.err().trim().split('\n')) expect(JSON.parse(line)).toHaveProperty('level')
      silent.process.kill('SIGTERM')
      await silent.exit
      expect(silent.err()).not.toMatch(GREETING)
    },
  )
})

describe('--end-with-stdin ends a command whose standard input is closed', () => {
  test.each(['serve', 'worker'])('%s', async (name) => {
    const folder = tempFolder()
    const dataDir = join(folder, 'data')
    const tokenFile = join(folder, 'token')
    mkdirSync(dataDir, { mode: 0o700 })
    writeFileSync(tokenFile, PAIRING_TOKEN, { mode: 0o600 })
    if (name === 'serve') writeFileSync(join(dataDir, 'config.json'), configWithAnyPort(), { mode: 0o600 })
    const args = name === 'serve' ? [] : ['--host', 'http://127.0.0.1:1', '--token-file', tokenFile]
    const command = [commandPath, name, '--data-dir', dataDir, '--end-with-stdin', ...args]
    const child = spawn(process.execPath, command, { stdio: ['pipe', 'ignore', 'ignore'] })
    child.stdin.end()
    expect(await once(child, 'exit')).toEqual([0, null])
  })
})

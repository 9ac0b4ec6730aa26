/** Tests of the bundled programs for sandboxes: complete, and usable by any user. */
import { execFileSync, spawnSync } from 'node:child_process'
import { chmodSync, cpSync, readdirSync, statSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { expect, test } from '@jest/globals'
import { testAsRoot } from '../../../support/skips.ts'
import { tempFolder } from '../../../support/temp-folder.ts'

const inside = join(
  dirname(dirname(dirname(dirname(dirname(fileURLToPath(import.meta.url)))))),
  'dist',
  'inside',
)
const PROMPT = 'Do it.\n```switchyard\nsay from afar\n```\n'

test('every file is readable and executable by all users', () => {
  expect(readdirSync(inside)).toEqual(
    expect.arrayContaining(['pty.node', 'scripted-agent', 'scripted-agent.js', 'terminal']),
  )
  for (const path of [inside, ...readdirSync(inside).map((name) => join(inside, name))])
    expect([path, statSync(path).mode & 0o777]).toEqual([path, 0o755])
})

test('a command works alone, wherever it is mounted, with the given Node', () => {
  const elsewhere = tempFolder()
  cpSync(join(inside, 'scripted-agent'), join(elsewhere, 'scripted-agent'))
  cpSync(join(inside, 'scripted-agent.js'), join(elsewhere, 'scripted-agent.js'))
  const env = { PATH: '/usr/bin:/bin', HOME: elsewhere, SWITCHYARD_NODE: process.execPath }
  const out = execFileSync(join(elsewhere, 'scripted-agent'), ['-p'], { cwd: elsewhere, env, input: PROMPT })
  expect(out.toString()).toBe('from afar\n')
})

testAsRoot('also for another user', () => {
  const home = tempFolder()
  chmodSync(home, 0o777)
  const copy = join(home, 'inside')
  cpSync(inside, copy, { recursive: true })
  const { stdout, status } = spawnSync(join(copy, 'scripted-agent'), ['-p'], {
    cwd: home,
    env: { PATH: '/usr/bin:/bin', HOME: home, SWITCHYARD_NODE: process.execPath },
    input: PROMPT,
    uid: 65_534,
    gid: 65_534,
  })
  expect([status, stdout.toString()]).toEqual([0, 'from afar\n'])
})

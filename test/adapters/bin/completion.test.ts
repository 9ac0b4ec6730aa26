/** Completion in the real shells: words of the tree, and ids of a host. */
import { spawn } from 'node:child_process'
import { existsSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:net'
import { delimiter, join } from 'node:path'
import { text } from 'node:stream/consumers'
import { expect, test } from '@jest/globals'
import { spawn as spawnInTerminal } from '@lydell/node-pty'
import { commandPath } from '../../support/command-process.ts'
import { fakeRun } from '../../support/fake-host-api.ts'
import { tempFolder } from '../../support/temp-folder.ts'
import { closeAfterTest, openTestServer, TOKEN } from '../../support/test-resources.ts'
import { until } from '../../support/until.ts'

const RUN_ID = `run-0123${'a'.repeat(28)}`

/** A folder where the shells find `switchyard`, and what surrounds them. */
function surroundings(url: string): Record<string, string> {
  const folder = tempFolder()
  const path = join(folder, 'switchyard')
  // A busy machine would reach the ceiling of 300 ms: this process has started in the future.
  const patience = join(folder, 'patience.cjs')
  writeFileSync(patience, 'process.uptime = () => -30')
  const command = [process.execPath, '--require', patience, commandPath].map((word) => `'${word}'`)
  writeFileSync(path, `#!/bin/sh\nexec ${command.join(' ')} "$@"\n`, { mode: 0o755 })
  return {
    PATH: `${folder}${delimiter}${process.env.PATH}`,
    HOME: folder,
    SWITCHYARD_DATA_DIR: folder,
    SWITCHYARD_URL: url,
    SWITCHYARD_TOKEN: TOKEN,
    LC_ALL: 'C.UTF-8',
    TERM: 'dumb',
  }
}

async function openHost(): Promise<Record<string, string>> {
  const { hostApi, url } = await openTestServer()
  hostApi.runsById.set(RUN_ID, fakeRun(RUN_ID, 'completed', 'GREET-7'))
  hostApi.runsById.set('run-9', fakeRun('run-9', 'queued', 'GREET-8;touch'))
  return surroundings(url)
}

async function run(command: string, args: readonly string[], env: Record<string, string>): Promise<string> {
  const child = spawn(command, [...args], { env, cwd: env.HOME, stdio: ['ignore', 'pipe', 'pipe'] })
  const [out, err] = await Promise.all([text(child.stdout), text(child.stderr)])
  return out + err
}

const complete = (env: Record<string, string>, ...words: string[]): Promise<string> =>
  run('switchyard', ['complete', '--', ...words], env)

const START = {
  bash: { args: ['--norc', '--noprofile', '-i'], prepare: ':' },
  zsh: {
    args: ['-f', '-i'],
    prepare: 'autoload -Uz compinit; compinit -u -D',
  },
} as const

test.each(['bash', 'zsh'] as const)('%s completes words, options, choices and ids by Tab', async (name) => {
  const env = await openHost()
  const shell = spawnInTerminal(name, [...START[name].args], {
    cols: 100,
    rows: 30,
    cwd: env.HOME ?? '',
    env,
  })
  closeAfterTest(() => shell.kill('SIGKILL'))
  let shown = ''
  shell.onData((data) => {
    shown += data
  })
  const expectShown = (part: string) => until(`${name} shows ${part}`, () => shown.includes(part))
  shell.write(`${START[name].prepare}; source <(switchyard completion ${name}); echo load''ed\r`)
  await expectShown('loaded\r')
  for (const [typed, added] of [
    ['expl', 'ain '],
    ['runs show GR', 'EET-7 '],
    ['runs show 0', '123aaaaaaaa '],
    ['logs --foll', 'ow '],
    ['status --color=al', 'ways '],
  ] as const) {
    shown = ''
    // An empty line between two makes the shell draw the next one whole.
    shell.write(`\x15\rswitchyard ${typed}\t`)
    await expectShown(`${typed}${added}`)
  }
  shell.write('\x15\rswitchyard logs $(touch evil) --foll\tEND')
  await expectShown('END')
  expect(existsSync(join(env.HOME ?? '', 'evil'))).toBe(false)
})

test('fish completes words, options, choices and ids', async () => {
  const env = await openHost()
  const asked = [
    'expl',
    'runs show GR',
    'logs --foll',
    'status --color=al',
    'runs show 0',
    'logs $(touch evil) ',
  ]
  const lines = asked.map((line) => `complete -C 'switchyard ${line}'`)
  const script = ['switchyard completion fish | source', ...lines].join('\n')
  const out = (await run('fish', ['--no-config', '-c', script], env)).trim().split('\n')
  expect(out.map((line) => line.split('\t')[0])).toEqual([
    'explain',
    'GREET-7',
    '--follow',
    '--color=always',
    '0123aaaaaaaa',
  ])
  expect(existsSync(join(env.HOME ?? '', 'evil'))).toBe(false)
})

test('ids of every kind come from the host, and no value that a shell would read as a command', async () => {
  const env = await openHost()
  const values = async (...words: string[]): Promise<string[]> =>
    (await complete(env, ...words)).split('\n').map((line) => line.split('\t')[0] ?? '')
  expect(await values('logs', '')).toEqual(['GREET-7', ':4', ''])
  expect(await values('tickets', 'show', '')).toEqual(['ENG-1', 'ENG-2', ':4', ''])
  expect(await values('workers', 'drain', '')).toEqual(['attic', ':4', ''])
  expect(await values('config', 'get', 'server.p')).toEqual(['server.port', ':4', ''])
  expect(await values('runs', '--data-dir', '')).toEqual([':0', ''])
})

test('without a host nothing is said, and the words are there', async () => {
  expect(await complete(surroundings(''), 'runs', 'sh')).toBe('show\tOne run in full\n:4\n')
  expect(await complete(surroundings('http://127.0.0.1:1'), 'logs', '')).toBe(':4\n')
  expect(await complete(surroundings('no address'), 'logs', '')).toBe(':4\n')
})

test('a host that answers too late is not waited for', async () => {
  const silent = createServer(() => {})
  closeAfterTest(() => silent.close())
  await new Promise<void>((resolve) => silent.listen(0, '127.0.0.1', resolve))
  const address = silent.address()
  const port = typeof address === 'object' ? address?.port : undefined
  const env = surroundings(`http://127.0.0.1:${port}`)
  const script = `process.argv.splice(1, 0, ${JSON.stringify(commandPath)})
    process.on('exit', () => console.error(Math.round(process.uptime() * 1000)))
    require(${JSON.stringify(commandPath)})`
  const out = await run(process.execPath, ['-e', script, 'complete', '--', 'runs', 's'], env)
  const [lines, ms] = out.split(':4\n')
  expect(lines).toBe('show\tOne run in full\n')
  // The ceiling is 300 ms; a busy machine may start the process late, and end it late.
  expect(Number(ms)).toBeLessThan(1_000)
})

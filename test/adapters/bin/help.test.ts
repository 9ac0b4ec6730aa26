/** `switchyard help`: commands as `--help` explains them, and topics. */
import { spawnSync } from 'node:child_process'
import type { CommandUnknownOpts } from '@commander-js/extra-typings'
import { expect, test } from '@jest/globals'
import { createProgram, ROOT_HELP } from '../../../bin/cli/program.ts'
import { commandPath, runCommand } from '../../support/command-process.ts'

async function run(...args: string[]): Promise<{ code: unknown; out: string; err: string }> {
  const { exit, out, err } = runCommand(args)
  return { code: await exit, out: out(), err: err() }
}

const commandsBelow = (command: CommandUnknownOpts): readonly CommandUnknownOpts[] => [
  command,
  ...command.commands.flatMap(commandsBelow),
]

test('each description begins with a capital and has no full stop, and names a default once', () => {
  const commands = commandsBelow(createProgram()).slice(1)
  const described = commands.map((command) => command.description()).filter((text) => text !== '')
  expect(described.filter((text) => !/^[A-Z].*[^.]$/.test(text))).toEqual([])
  const doubled = commands
    .flatMap(({ options }) => options)
    .filter(({ description, defaultValue }) => defaultValue !== undefined && description.includes('(default'))
  expect(doubled.map(({ flags }) => flags)).toEqual([])
})

test('help COMMAND prints the same as COMMAND --help, for verbs too', async () => {
  expect(await run('help', 'runs', 'list')).toEqual(await run('runs', 'list', '--help'))
  expect(await run('help', 'serve')).toEqual(await run('serve', '--help'))
  expect(await run('help')).toEqual({ code: 0, out: ROOT_HELP, err: '' })
})

test.each([['--help'], ['help', 'exit'], ['completion', 'bash'], ['runs', '--help']])(
  'a reader of %s %s who has seen enough is no failure, and a full disk is one',
  async (...words) => {
    const command = runCommand(words)
    command.process.stdout?.destroy()
    expect([await command.exit, command.err()]).toEqual([0, ''])
    const toFull = spawnSync('/bin/sh', [
      '-c',
      '"$0" "$@" > /dev/full',
      process.execPath,
      commandPath,
      ...words,
    ])
    expect([toFull.status, String(toFull.stderr)]).toEqual([
      70,
      expect.stringMatching(/^switchyard: standard output .*\(ENOSPC\)\n$/),
    ])
  },
)

test.each([
  [['statsu'], 'status'],
  [['runs', 'lsit'], 'runs list'],
  [['exti'], 'exit'],
])('help %j suggests %s', async (words, meant) => {
  const { code, out, err } = await run('help', ...words)
  expect([code, out]).toEqual([2, ''])
  expect(err.endsWith(`; did you mean ${meant}?\n  try: switchyard help ${meant}\n`)).toBe(true)
})

test('topics explain exit codes, variables and JSON in 80 columns', async () => {
  const topics = await Promise.all(['exit', 'environment', 'json'].map((topic) => run('help', topic)))
  const text = topics.map(({ out }) => out).join('')
  for (const part of ['  69   ', '  NO_COLOR ', 'UTC']) expect(text).toContain(part)
  expect(text.split('\n').filter((line) => line.length > 80)).toEqual([])
  expect(topics.map(({ code, err }) => [code, err])).toEqual([
    [0, ''],
    [0, ''],
    [0, ''],
  ])
})

test('an unknown word is wrong usage', async () => {
  const { code, out, err } = await run('help', 'runs', 'zzzzzz')
  expect([code, out]).toEqual([2, ''])
  expect(err).toMatch(/^switchyard: .* runs zzzzzz\n/)
})

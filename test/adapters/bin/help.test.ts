/** `switchyard help`: commands as `--help` explains them, and topics. */
import type { CommandUnknownOpts } from '@commander-js/extra-typings'
import { expect, test } from '@jest/globals'
import { createProgram } from '../../../bin/tree/program.ts'
import { ROOT_HELP } from '../../../bin/tree/root-help.ts'
import { runCommand } from '../../support/command-process.ts'

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
  const { code, out, err } = await run('help', 'runs', 'lsit')
  expect([code, out]).toEqual([2, ''])
  expect(err).toMatch(/^switchyard: .* runs lsit\n/)
})

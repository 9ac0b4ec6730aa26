/** The manual pages, written from the tree of commands. */
import { execFileSync, spawnSync } from 'node:child_process'
import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from '@jest/globals'
import { EXAMPLES, writeManual } from '../../../bin/cli/help/manual.ts'
import { createProgram } from '../../../bin/cli/program.ts'
import { tempFolder } from '../../support/temp-folder.ts'

const tree = createProgram()
const pages = writeManual(tree, { version: '1.2.3', date: '2026-11-22' })
const commands = tree
  .createHelp()
  .visibleCommands(tree)
  .map((command) => command.name())

function savePages(): string[] {
  const folder = join(tempFolder(), 'man1')
  mkdirSync(folder)
  return [...pages].map(([name, text]) => {
    const path = join(folder, name)
    writeFileSync(path, text)
    return path
  })
}

test('there is one page for each command that people see, and one for all', () => {
  expect([...pages.keys()].sort()).toEqual(
    ['switchyard.1', ...commands.map((name) => `switchyard-${name}.1`)].sort(),
  )
})

test('mandoc has no word to say about any page', () => {
  const { stdout, stderr, status } = spawnSync('mandoc', ['-T', 'lint', '-W', 'warning', ...savePages()], {
    encoding: 'utf8',
  })
  expect({ stdout, stderr, status }).toEqual({ stdout: '', stderr: '', status: 0 })
})

test('a page has the sections of a manual, with verbs, options, choices and examples', () => {
  const path = savePages().find((each) => each.endsWith('switchyard-runs.1')) ?? ''
  const shown = execFileSync('mandoc', ['-T', 'ascii', path], { encoding: 'utf8' }).replace(/.[\b]/g, '')
  expect([...shown.matchAll(/^[A-Z]+( [A-Z]+)*$/gm)].map(([heading]) => heading)).toEqual([
    'NAME',
    'SYNOPSIS',
    'DESCRIPTION',
    'VERBS',
    'OPTIONS',
    'EXIT STATUS',
    'ENVIRONMENT',
    'EXAMPLES',
    'SEE ALSO',
  ])
  for (const part of [
    'switchyard-runs - what is worked on',
    'switchyard runs wait run ... [options]',
    '--status status...',
    'one of queued, preparing',
    '-o, --output format',
    '--status failed',
    'SWITCHYARD_DATA_DIR',
    '69     no host is reachable',
    'switchyard-tickets(1)',
  ])
    expect(shown).toContain(part)
})

test('a default is named once', () => {
  const page = pages.get('switchyard-serve.1') ?? ''
  expect(page).toContain('one of debug, info, warn, error, silent; info by default')
  expect(page.match(/none by default|default: none/g)).toEqual(['none by default', 'none by default'])
})

test('each example is of a command that exists', () => {
  expect(Object.keys(EXAMPLES).filter((name) => name !== 'switchyard' && !commands.includes(name))).toEqual(
    [],
  )
})

test('a line of text never becomes a macro, and signs that are not ASCII keep their meaning', () => {
  const odd = createProgram()
  odd.command('odd').description('.SH \\fB’s…')
  const page = writeManual(odd, { version: '1', date: '2026-11-22' }).get('switchyard-odd.1')
  expect(page).toContain('\\&.SH \\efB\\[u2019]s...')
})

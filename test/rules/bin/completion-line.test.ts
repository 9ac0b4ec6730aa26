/** Completing a command line: which words, ids or files may stand at its end. */
import { expect, test } from '@jest/globals'
import { readLine } from '../../../bin/cli/help/completion-line.ts'
import { createProgram } from '../../../bin/cli/program.ts'

const program = createProgram()
const read = (line: string) => readLine(program, line.split(' '))
const fitting = (line: string): string[] => {
  const { words, beginning } = read(line)
  return words.map(({ value }) => value).filter((value) => value.startsWith(beginning))
}

test.each([
  ['expl', ['explain']],
  ['compl', ['completion']],
  ['runs sh', ['show']],
  ['completion f', ['fish']],
  ['runs --al', ['--all']],
  ['status --color al', ['always']],
  ['status --color=al', ['always']],
  ['--vers', ['--version']],
  ['runs --nothing=x', []],
  ['nonsense ', []],
  ['help env', ['environment']],
  ['help runs exp', ['export']],
])('words complete “%s”', (line, words) => {
  expect(fitting(line)).toEqual(words)
})

test.each([
  ['logs ', ['run']],
  ['logs --phase agent ', ['run']],
  ['logs --follow ', ['run']],
  ['logs ENG-1 ', []],
  ['cancel ENG-1 ', ['run']],
  ['runs ', ['run']],
  ['explain ', ['ticket', 'run']],
  ['workers drain ', ['worker']],
  ['config set ', ['setting']],
  ['memories forget ', ['memory']],
  ['pulls show api ', ['pull']],
  ['start --repo ', ['repo']],
  ['start --repo=', ['repo']],
  ['start -- --repo ', ['ticket']],
  ['runs --data-dir ', []],
])('ids complete “%s”', (line, ids) => {
  expect(read(line).ids).toEqual(ids)
})

test('the value of --host-user names the user of the host that is asked', () => {
  expect(read('runs --host-user games show ').hostUser).toBe('games')
  expect(read('runs --host-user=1234 show ').hostUser).toBe('1234')
})

test('the value of --data-dir names the host that is asked, and is completed by files', () => {
  expect(read('runs --data-dir /srv/a show ').dataDir).toBe('/srv/a')
  expect(read('runs --data-dir=/srv/b show ').dataDir).toBe('/srv/b')
  expect(read('runs --data-dir ').areFilesWanted).toBe(true)
  expect(read('runs ').areFilesWanted).toBe(false)
})

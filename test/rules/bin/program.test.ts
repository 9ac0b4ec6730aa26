/** How much of the tree of commands a start builds. */
import { expect, test } from '@jest/globals'
import { createProgram, createProgramFor } from '../../../bin/cli/program.ts'

const namesFor = (...words: string[]) => createProgramFor(words).commands.map((command) => command.name())
const all = createProgram().commands.map((command) => command.name())

test('a start builds only the command that it names, under that name', () => {
  for (const name of all) expect(namesFor(name, '--help')).toEqual([name])
})

test.each([[], ['--help'], ['--json', 'status'], ['stauts'], ['constructor']])(
  'without the name of a command first, the whole tree answers: %j',
  (...words: string[]) => {
    expect(namesFor(...words)).toEqual(all)
  },
)

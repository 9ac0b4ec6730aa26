/** The first page of help. */
import { expect, test } from '@jest/globals'
import { createProgram, ROOT_HELP } from '../../../bin/cli/program.ts'

/** Names stand before the first gap of a line that is indented by two spaces. */
const namesInHelp = ROOT_HELP.split('\n')
  .filter((line) => /^ {2}\S/.test(line))
  .flatMap(
    (line) =>
      line
        .trim()
        .split(/ {2,}/)[0]
        ?.match(/\b[a-z][a-z-]+/g) ?? [],
  )

test('the help names every command of the tree and no other', () => {
  const program = createProgram()
  const inTree = program
    .createHelp()
    .visibleCommands(program)
    .map((command) => command.name())
  expect([...namesInHelp].sort()).toEqual([...inTree].sort())
})

test('the help fits in a terminal of 80 columns and 40 rows', () => {
  const lines = ROOT_HELP.split('\n')
  expect(lines.filter((line) => line.length > 80)).toEqual([])
  expect(lines.length).toBeLessThanOrEqual(40)
})

/** The lines that the quickstart redraws on a terminal. */
import { expect, test } from '@jest/globals'
import { ProgressScreen, type ScreenOutput } from '../../../bin/programs/quickstart/progress-screen.ts'

const UTF8 = { LANG: 'C.UTF-8' }
const LINE = ' 1.2s GREET-1  completed, greeter#1'

function createScreen(out: Omit<ScreenOutput, 'write'>, env: NodeJS.ProcessEnv = UTF8) {
  const written: string[] = []
  const screen = new ProgressScreen({ ...out, write: (text) => written.push(text) }, env)
  return { screen, written }
}

test.each([
  ['a wide one', { isTTY: true, columns: 120, rows: 40 }, LINE],
  ['a narrow one', { isTTY: true, columns: 20, rows: 40 }, ' 1.2s GREET-1  comp…'],
  ['one that does not know its size', { isTTY: true, columns: 0, rows: 0 }, LINE],
])('on a terminal a line is cut at its width and redrawn in place: %s', (_, out, shown) => {
  const { screen, written } = createScreen(out)
  screen.update('run-1', ' 0.7s GREET-1  running')
  screen.update('run-1', LINE)
  screen.settle()
  expect(written.at(-1)).toBe(`\x1b[1A\r\x1b[J${shown}\n`)
})

test.each([
  ['in a pipe', {}, {}],
  ['on a dumb terminal', { isTTY: true, columns: 80, rows: 24 }, { TERM: 'dumb' }],
])('each change is a line of its own %s', (_, out, env) => {
  const { screen, written } = createScreen(out, env)
  screen.update('run-1', ' 0.7s GREET-1  running')
  screen.update('run-1', LINE)
  screen.settle()
  expect(written.join('')).toBe(` 0.7s GREET-1  running\n${LINE}\n`)
})

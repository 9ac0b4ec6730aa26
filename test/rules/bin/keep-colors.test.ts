/** The part of a program's output that reaches a terminal. */
import { expect, test } from '@jest/globals'
import { keepColors } from '../../../bin/output/text-width.ts'

test.each([
  ['a plain line', 'added 412 packages', 'added 412 packages'],
  ['a colour, which ends with the line', '\x1b[31mred', '\x1b[31mred\x1b[0m'],
  ['a colour of 24 bits', '\x1b[38;2;1;2;3mx\x1b[0m', '\x1b[38;2;1;2;3mx\x1b[0m\x1b[0m'],
  ['a moved cursor', 'a\x1b[2J\x1b[Hb\x1b[1A', 'ab'],
  ['a window title', '\x1b]0;owned\x07text', 'text'],
  ['a title that never ends', '\x1b]0;owned', ''],
  ['an address behind a link', '\x1b]8;;https://e.example\x1b\\x', 'x'],
  ['the alternate screen', '\x1b[?1049hx', 'x'],
  ['a cut sequence', 'x\x1b[31', 'x'],
  ['a sequence in eight bits', '\x9b31mx', '?31mx'],
  ['a carriage return', '10%\r20%', '10%?20%'],
  ['a bell and a backspace', 'a\x07b\x08c', 'a?b?c'],
  ['reversed text', 'a\u202eb', 'a?b'],
])('%s', (_, line, printed) => {
  expect(keepColors(line, true)).toBe(printed)
})

test('without colours every sequence is left out', () => {
  expect(keepColors('\x1b[1;31mred\x1b[0m and \x1b[2Jplain', false)).toBe('red and plain')
})

/** The streams that get colours, and the sequence of each role. */
import { expect, test } from '@jest/globals'
import { type ColorChoice, createColors, hasColors } from '../../../../bin/output/colors.ts'

test.each<[ColorChoice | undefined, boolean, NodeJS.ProcessEnv, boolean]>([
  [undefined, true, {}, true],
  [undefined, false, {}, false],
  [undefined, true, { TERM: 'dumb' }, false],
  [undefined, true, { NO_COLOR: '1' }, false],
  [undefined, true, { NO_COLOR: '' }, true],
  [undefined, false, { FORCE_COLOR: '1' }, true],
  [undefined, false, { FORCE_COLOR: '1', NO_COLOR: '1' }, false],
  [undefined, true, { FORCE_COLOR: '0' }, false],
  [undefined, false, { FORCE_COLOR: '' }, false],
  ['auto', true, { NO_COLOR: '1' }, false],
  ['always', false, { NO_COLOR: '1' }, true],
  ['never', true, { FORCE_COLOR: '1' }, false],
])('--color %s on a terminal (%s) with %j has colours: %s', (choice, isTTY, env, expected) => {
  expect(hasColors({ isTTY }, env, choice)).toBe(expected)
})

test('a role is a sequence around the text, and nothing without colours', () => {
  const { good, bad, attention, bold, dim, address, selection, failure } = createColors({ isTTY: true }, {})
  expect([good, bad, attention, bold, dim, address, selection, failure].map((paint) => paint('x'))).toEqual([
    '\x1b[32mx\x1b[39m',
    '\x1b[31mx\x1b[39m',
    '\x1b[35mx\x1b[39m',
    '\x1b[1mx\x1b[22m',
    '\x1b[2mx\x1b[22m',
    '\x1b[4mx\x1b[24m',
    '\x1b[7mx\x1b[27m',
    '\x1b[1m\x1b[31mx\x1b[39m\x1b[22m',
  ])
  expect(good('')).toBe('')
  expect(createColors({}, {}).failure('x')).toBe('x')
})

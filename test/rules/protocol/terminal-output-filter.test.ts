/** The terminal output filter: drawing sequences pass; queries, titles, clipboard and printing are removed. */
import { describe, expect, test } from '@jest/globals'
import * as fc from 'fast-check'
import { TerminalOutputFilter } from '../../../protocol/terminal-output-filter.ts'
import { measureCpuMs } from '../../support/cpu-time.ts'

const filterAll = (...pieces: readonly string[]): string => {
  const outputFilter = new TerminalOutputFilter()
  return pieces.map((piece) => outputFilter.filter(piece)).join('')
}

const passing = [
  'text, 漢字 and 🙂\r\n\t\b\x07',
  '\x1b[31;1mred\x1b[0m',
  '\x1b[4:3mcurly',
  '\x1b[2J\x1b[H\x1b[10;20H\x1b[K',
  '\x1b[?1049h\x1b[?25l\x1b[?2004h\x1b[?12h\x1b[22h',
  '\x1b7\x1b8\x1bM\x1bc\x1b=\x1b>\x1b#8\x1b[38:2::1:2:3m\x1b[?1003;1006h\x1b[r\x1b[s\x1b[u',
  '\x1b(0q\x1b(B',
  '\x1b[2 q\x1b[!p',
  '\x1b[S\x1b[1000T\x1b[3b\x1b[32766;32766H',
]

const removed: readonly (readonly [what: string, output: string, left: string])[] = [
  ['a title', '\x1b]0;you are root\x07\x1b]2;root\x1b\\\x1bkroot\x1b\\', ''],
  ['the clipboard', '\x1b]52;c;c2VjcmV0\x1b\\', ''],
  ['the window', '\x1b[22;2t\x1b[21t\x1b[8;1;1t\x1b[>2t', ''],
  ['a notice or a file', '\x1b]9;notice\x07\x1b]777;notify;a;b\x07\x1b]1337;File=inline=1:AAAA\x07', ''],
  ['a string through another terminal', '\x1bPtmux;\x1b\x1b]52;c;eA==\x07\x1b\\', ''],
  ['other strings', '\x1b_Ga=T;AAAA\x1b\\\x1b^private\x1b\\\x1bXstart\x1b\\', ''],
  [
    'a query of colours and state',
    '\x1b]10;?\x1b\\\x1bP$qm\x1b\\\x1b[?996n\x1b[?u\x1b[>q\x1b[x\x1b[1;1;1;1;1;1*y\x1b[1$w',
    '',
  ],
  ['a link', '\x1b]8;;http://evil\x07text\x1b]8;;\x07', 'text'],
  ['excessive counts', '\x1b[2147483647b\x1b[10000S\x1b[99999;1T', ''],
  ['a query of the cursor', '\x1b[6n', ''],
  ['a query of the terminal type', '\x1b[c\x1b[>c\x1bZ\x05\x1b[>0q', ''],
  ['a query of a mode', '\x1b[?2004$p', ''],
  ['a query of the title', '\x1b[21t', ''],
  ['a device command', '\x1bPq#0\x1b\\', ''],
  ['the printer', '\x1b[5i', ''],
  ['a keyboard protocol', '\x1b[>1u\x1b[>4;2m\x1b[=1;1u\x1b[<1u\x1b[>4n\x1b[>1;2f', ''],
  ['a locked keyboard', '\x1b[2h\x1b[4;02h', ''],
  ['another kind of keyboard', '\x1b[?2l\x1b[?25;9001h', ''],
  ['a query with a line end in it', '\x1b[\n6n', '\n6n'],
  ['a query with an 8-bit introducer', '\x9b6n', '6n'],
  ['a title that a colour aborts', '\x1b]0;t\x1b[31mred', '\x1b[31mred'],
  ['a lone escape', '\x1b\x1b\x1b[31m', '\x1b[31m'],
]

test('a sequence that never ends takes no longer than reading it', () => {
  const output = `\x1b[${'2;'.repeat(512 * 1024)}m`
  const cpuMs = measureCpuMs(() =>
    expect(filterAll(`a${output}`, `\x1b[?${output}`, 'b')).not.toContain('\x1b'),
  )
  expect(cpuMs).toBeLessThan(2_000)
})

describe('a view', () => {
  test.each(passing)('receives %j unchanged', (output) => {
    expect(filterAll(output)).toBe(output)
  })

  test.each(removed)('receives nothing of %s', (_what, output, left) => {
    expect(filterAll(`a${output}b`)).toBe(`a${left}b`)
  })

  test('receives the same output however it is split', () => {
    const output = fc.array(
      fc.constantFrom(...passing, ...removed.map(([, text]) => text), '\x1b', '\x18', '\x1b\\'),
    )
    fc.assert(
      fc.property(output, fc.array(fc.nat(200)), (parts, points) => {
        const whole = parts.join('')
        const at = [0, ...points.filter((point) => point < whole.length).sort((a, b) => a - b), whole.length]
        const pieces = at.slice(1).map((end, n) => whole.slice(at[n], end))
        // An unfinished sequence at the end is held back in both cases.
        expect(filterAll(...pieces, 'x')).toBe(filterAll(whole, 'x'))
      }),
    )
  })

  test('never receives anything that a terminal would answer', () => {
    const bits = fc.constantFrom(
      '\x1b',
      '[',
      ']',
      '?',
      '>',
      '6',
      'n',
      'c',
      ';',
      '\x07',
      '\n',
      'P',
      '\\',
      '\x9b',
      '\x18',
      ' ',
      '$',
      'p',
      't',
    )
    fc.assert(
      fc.property(fc.array(fc.array(bits).map((some) => some.join(''))), (pieces) => {
        // biome-ignore lint/suspicious/noControlCharactersInRegex: they are what this is about
        expect(filterAll(...pieces)).not.toMatch(/\x1b\[[0-?]*[ -/]*[nctpu]|\x1b[\]PX^_Z]|[\x05\x80-\x9f]/)
      }),
      { numRuns: 2_000 },
    )
  })

  test('an endless title uses no memory', () => {
    const outputFilter = new TerminalOutputFilter()
    outputFilter.filter('\x1b]0;')
    for (let n = 0; n < 1_000; n++) expect(outputFilter.filter('x'.repeat(1_000))).toBe('')
    expect(outputFilter.filter('\x07after')).toBe('after')
  })
})

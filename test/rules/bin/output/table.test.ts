/** Tables on terminals of each width, and as values for other programs. */
import { describe, expect, test } from '@jest/globals'
import { createColors } from '../../../../bin/output/colors.ts'
import { createGlyphs, type GlyphName } from '../../../../bin/output/styled-stream.ts'
import { drawTable, formatTabSeparated, type TableColumn } from '../../../../bin/output/table.ts'

interface Row {
  readonly ticket: string
  readonly title: string
  readonly state: GlyphName
  readonly age: string
  readonly cost: string
  readonly worker: string
  readonly run: string
}

const columns: readonly TableColumn<Row>[] = [
  { heading: 'TICKET', cell: ({ ticket }) => ticket },
  { heading: 'TITLE', cell: ({ title }) => title, shrinksTo: 12 },
  { heading: 'STATE', cell: ({ state }) => state },
  {
    heading: 'AGE',
    cell: ({ age }) => age,
    plain: () => '2026-11-22T14:06:00.000Z',
    align: 'right',
    givesWay: 4,
  },
  { heading: 'COST', cell: ({ cost }) => cost, align: 'right', givesWay: 3 },
  { heading: 'WORKER', cell: ({ worker }) => worker, givesWay: 2 },
  {
    heading: 'RUN',
    cell: ({ run }) => run,
    plain: ({ run }) => `run-${run}7b3c9e01a4d8f2c60b17`,
    givesWay: 1,
  },
]

const row = (...[ticket, title, state, age, cost, worker, run]: [string, string, GlyphName, ...string[]]) =>
  ({ ticket, title, state, age, cost, worker, run }) as Row

const rows = [
  row('ENG-251', 'Say which file is too large', 'queued', '12s', '-', '-', '01a203abc330'),
  row('ENG-247', 'Invoice export', 'queued', '30s', '-', '-', '01a203ab7ce0'),
  row('ENG-242', 'Drop Node 18 from CI', 'preparing', '3m20s', '-', 'atlas', '01a203a8e4d0'),
  row('ENG-240', 'Paginate the audit log of users', 'finalizing', '5m40s', '~$0.41', 'forge', '01a203a6c1f0'),
  row('ENG-231', 'Rate limit login attempts', 'running', '26m', '$1.84', 'atlas', '01a20393fd40'),
  row('ENG-228', 'Upload test is flaky', 'failed', '1h05m', '$3.10', 'mica', '01a203706fb0'),
  row('ENG-219', '登録フォームの検証', 'completed', '1h40m', '~$0.97', 'forge', '01a203506490'),
]

const glyphs = createGlyphs({ LANG: 'C.UTF-8' }, 'linux')
const mark = ({ state }: Row) => ({ text: glyphs.of(state) })
const linesAt = (width: number, shown = rows): string[] =>
  drawTable(columns, shown, { width }, mark).split('\n')

test('80 columns shorten the title and keep every column', () => {
  expect(linesAt(80)).toEqual([
    '  TICKET   TITLE                 STATE         AGE    COST  WORKER  RUN',
    '◦ ENG-251  Say which file is t…  queued        12s       -  -       01a203abc330',
    '◦ ENG-247  Invoice export        queued        30s       -  -       01a203ab7ce0',
    '▹ ENG-242  Drop Node 18 from CI  preparing   3m20s       -  atlas   01a203a8e4d0',
    '» ENG-240  Paginate the audit …  finalizing  5m40s  ~$0.41  forge   01a203a6c1f0',
    '▸ ENG-231  Rate limit login at…  running       26m   $1.84  atlas   01a20393fd40',
    '✗ ENG-228  Upload test is flaky  failed      1h05m   $3.10  mica    01a203706fb0',
    '✓ ENG-219  登録フォームの検証    completed   1h40m  ~$0.97  forge   01a203506490',
  ])
})

test('below 80 columns the run, the worker and the cost give way before the title', () => {
  const shown = rows.filter(({ ticket }) => ticket !== 'ENG-240')
  const titled = [
    ...shown,
    row('ENG-1', 'A title that has 29 columns..', 'finalizing', '5m40s', '~$0.41', 'a', ''),
  ]
  expect(linesAt(60, titled).slice(0, 2)).toEqual([
    '  TICKET   TITLE                          STATE         AGE',
    '◦ ENG-251  Say which file is too large    queued        12s',
  ])
})

test('a wide terminal gives the title what it needs and no more', () => {
  expect(linesAt(200)[4]).toBe(
    '» ENG-240  Paginate the audit log of users  finalizing  5m40s  ~$0.41  forge   01a203a6c1f0',
  )
})

test('the title shrinks to 12 columns, and what must stay whole continues in a line of its own', () => {
  expect(linesAt(32, rows.slice(4, 5))).toEqual([
    '  TICKET   TITLE         STATE',
    '▸ ENG-231  Rate limit …  running',
  ])
  expect(linesAt(26, rows.slice(4, 5))).toEqual([
    '  TICKET   TITLE',
    '    STATE',
    '▸ ENG-231  Rate limit log…',
    '    running',
  ])
})

test.each([20, 26, 34, 40, 47, 60, 66, 79, 80, 81, 100, 120, 200])(
  'no line has more than %i columns',
  (width) => {
    for (const line of linesAt(width)) expect(line.length).toBeLessThanOrEqual(width)
  },
)

describe('cells', () => {
  const single = (column: Partial<TableColumn<string>>, width: number, text: string) =>
    drawTable([{ heading: 'X', cell: (value) => value, ...column }], [text], { width }).split('\n')[1]

  test('paths shrink in their middle', () => {
    expect(single({ shrinksTo: 5, shrinks: 'middle' }, 15, 'packages/server/src/index.ts')).toBe(
      'package…ndex.ts',
    )
  })

  test('foreign text has neither controls nor line ends', () => {
    expect(single({}, 80, 'a\x1b[2Jb\nc')).toBe('a?[2Jb c')
  })

  test('a terminal of ASCII gets ASCII', () => {
    const terminal = { width: 80, isAsciiOnly: true }
    expect(drawTable([{ heading: 'X', cell: () => '登録 a' }], [''], terminal)).toBe('X\n?? a')
  })

  test('only the text of a cell is painted, and a painted column is as wide as a plain one', () => {
    const { bad, bold } = createColors({ isTTY: true }, {})
    const painted: readonly TableColumn<string>[] = [
      { heading: 'A', cell: (text) => ({ text, paint: bad }) },
      { heading: 'N', cell: (text) => ({ text, paint: bad }), align: 'right' },
    ]
    expect(drawTable(painted, ['x', 'long'], { width: 80, paintHeading: bold })).toBe(
      [
        '\x1b[1mA\x1b[22m        \x1b[1mN\x1b[22m',
        '\x1b[31mx\x1b[39m        \x1b[31mx\x1b[39m',
        '\x1b[31mlong\x1b[39m  \x1b[31mlong\x1b[39m',
      ].join('\n'),
    )
  })
})

describe('a list without headings', () => {
  const needs: readonly TableColumn<readonly [string, string]>[] = [
    { heading: '', cell: ([ticket]) => ticket },
    { heading: '', cell: ([, reason]) => reason, shrinksTo: 20 },
    { heading: '', cell: ([ticket]) => `switchyard logs ${ticket}` },
  ]
  const items = [
    ['ENG-228', 'failed: verify "npm test" exited with 1'],
    ['ENG-219', 'review asked on api#87, checks passed'],
  ] as const

  test('has rows alone', () => {
    expect(drawTable(needs, items, { width: 80 }, () => ({ text: '!' }))).toBe(
      [
        '! ENG-228  failed: verify "npm test" exited with 1  switchyard logs ENG-228',
        '! ENG-219  review asked on api#87, checks passed    switchyard logs ENG-219',
      ].join('\n'),
    )
    expect(formatTabSeparated(needs, items.slice(1))).toBe(
      'ENG-219\treview asked on api#87, checks passed\tswitchyard logs ENG-219',
    )
  })

  test('keeps the command to copy whole, in a line of its own where there is no place beside it', () => {
    expect(drawTable(needs, items.slice(0, 1), { width: 60 })).toBe(
      'ENG-228  failed: verify "npm test"…  switchyard logs ENG-228',
    )
    expect(drawTable(needs, items.slice(0, 1), { width: 40 })).toBe(
      'ENG-228  failed: verify "npm test" exit…\n    switchyard logs ENG-228',
    )
  })
})

test('other programs get whole values between tabs, with the heading', () => {
  expect(formatTabSeparated(columns, rows.slice(0, 1))).toBe(
    [
      'TICKET\tTITLE\tSTATE\tAGE\tCOST\tWORKER\tRUN',
      'ENG-251\tSay which file is too large\tqueued\t2026-11-22T14:06:00.000Z\t-\t-\trun-01a203abc3307b3c9e01a4d8f2c60b17',
    ].join('\n'),
  )
  expect(formatTabSeparated([{ heading: 'X', cell: () => 'a\tb\nc' }], [''])).toBe('X\na b c')
})

/** The board of `switchyard top` in terminals of all sizes. */
import { describe, expect, test } from '@jest/globals'
import { logLinesOf } from '../../../../bin/cli/top/board-records.ts'
import { layoutBoard } from '../../../../bin/cli/top/layout.ts'
import { paintLine } from '../../../../bin/cli/top/line.ts'
import { createColors } from '../../../../bin/output/colors.ts'
import { columnsOf } from '../../../../bin/output/text-width.ts'
import type { RunEvent } from '../../../../protocol/run.ts'
import {
  boardOf,
  drawBoard,
  NOW,
  runId,
  sampleRecords,
  sampleRun,
  sampleRuns,
  textFor,
  viewOf,
} from './sample-board.ts'

const board = boardOf(sampleRecords())
const empty = boardOf(sampleRecords([], []))
const many = (count: number, status: 'queued' | 'running' | 'completed') =>
  Array.from({ length: count }, (_, at) =>
    sampleRun(1_000 + at, status, {
      agoMs: (count - at) * 60_000,
      title: '登録フォームの検証をすべての入力欄に加える',
    }),
  )
const eventAt = (index: number, text: string): RunEvent => ({
  runId: runId(231),
  index,
  at: new Date(NOW - 60_000).toISOString(),
  type: 'log',
  stream: 'stdout',
  text,
})

const SAMPLE_80_24 = `\
switchyard   4 active  3 queued  2 need you   today ~$14.20       15:32:10  live

NEEDS YOU
! ENG-228  failed: verify "npm test" exited with 1
! ENG-219  review asked on api#87, checks passed

RUNS       STATE       AGE      COST  LAST LINE
▸ ENG-231  running     26m     $1.84  > Bash: npm test
▸ ENG-238  running     12m    ~$0.62  > Edit: test/upload.test.ts
» ENG-240  finalizing  5m40s  ~$0.41  # pushed switchyard/eng-240
▹ ENG-242  preparing   3m20s       -  added 96 packages in 8s
◦ ENG-245  queued      3m10s  ~$0.33  usage limit of codex until 2026-11-22T17:…
◦ ENG-247  queued      30s         -  waiting for ENG-245
◦ ENG-251  queued      12s         -  fleet at capacity
✓ ENG-219  completed   1h40m  ~$0.97  api#87 open


WORKERS    STATE     SLOTS  RUNS
  atlas    online    2/2    ENG-231 ENG-242
  forge    online    2/2    ENG-238 ENG-240
  mica     draining  0/2
  onyx     offline   -      last seen 2h00m ago

up/down select  enter show  l logs  a attach  c cancel  r retry  ? help  q quit`

describe('the example', () => {
  test('at 80 × 24', () => {
    expect(drawBoard(board, viewOf(80, 24)).join('\n')).toBe(SAMPLE_80_24)
  })

  test('at 120 × 40, with titles, workers, platforms, versions and 15 lines of the log', () => {
    const events = Array.from({ length: 30 }, (_, at) => eventAt(at, `line ${at}\n`))
    const lines = drawBoard(board, viewOf(120, 40, { log: events.flatMap(logLinesOf) }))
    expect(lines).toHaveLength(40)
    expect(lines[0]).toMatch(/^switchyard {3}4 active .* 15:32:10 {2}live$/)
    expect(lines.slice(6, 8)).toEqual([
      'RUNS       TITLE                       STATE       AGE      COST  WORKER  LAST LINE',
      '▸ ENG-231  Rate limit login attempts   running     26m     $1.84  atlas   > Bash: npm test',
    ])
    expect(lines[11]).toBe(
      '◦ ENG-245  Dark mode for settings      queued      3m10s  ~$0.33  -       usage limit of codex until 2026-11-22T17:00:0…',
    )
    expect(lines[14]).toMatch(/^✓ ENG-219 {2}登録フォームの検証 {10}completed {3}1h40m/)
    expect(lines.slice(16, 19)).toEqual([
      'WORKERS    STATE     SLOTS  PLATFORM     VERSION        RUNS',
      '  atlas    online    2/2    linux x64    0.2.0          ENG-231 ENG-242',
      '  forge    online    2/2    linux arm64  0.1.9 (older)  ENG-238 ENG-240',
    ])
    expect(lines[22]).toBe('LOG  ENG-231  Rate limit login attempts')
    expect(lines.slice(23, 38)).toEqual(Array.from({ length: 15 }, (_, at) => `15:31:10   line ${at + 15}`))
    expect(lines[39]).toMatch(/^up\/down select {2}enter show .* q quit$/)
  })
})

describe('every size', () => {
  const boards = {
    example: board,
    empty,
    'a hundred runs': boardOf(sampleRecords([...many(60, 'queued'), ...many(40, 'running')])),
    'finished runs alone': boardOf(sampleRecords(many(50, 'completed'))),
  }
  const sizes = [60, 80, 120, 200].flatMap((columns) =>
    [12, 24, 34, 40, 60].map((rows): [number, number] => [columns, rows]),
  )
  test.each(sizes)('%i × %i: every line fits, and all lines are there', (columns, rows) => {
    for (const [name, each] of Object.entries(boards))
      for (const env of [{ LANG: 'C.UTF-8' }, { LANG: 'ja_JP.UTF-8' }, { LC_ALL: 'C' }]) {
        const lines = drawBoard(each, viewOf(columns, rows, { text: textFor(env, columns) }))
        expect([name, lines.length]).toEqual([name, rows])
        expect(lines.filter((line) => columnsOf(line) > columns)).toEqual([])
        expect(lines.at(-1)).toMatch(/\? help {2}q quit$/)
      }
  })
})

describe('what gives way when lines are short', () => {
  const draw = (rows: number) => drawBoard(board, viewOf(80, rows))
  test('workers share a line first, then finished runs go, then queued runs are counted', () => {
    expect(draw(23)).toContain('  onyx     offline   -      last seen 2h00m ago')
    const folded = draw(19)
    expect(folded).toContain('WORKERS    3 of 4 online, 4 of 4 slots taken')
    expect(folded.join('\n')).toContain('ENG-219  completed')
    const without = draw(18)
    expect(without.join('\n')).not.toContain('completed')
    expect(without).toContain('◦ ENG-251  queued      12s         -  fleet at capacity')
    const counted = draw(17)
    expect(counted).toContain('  and 2 more')
    expect(counted.join('\n')).not.toContain('ENG-247')
  })

  test('empty lines go before the last queued runs do', () => {
    const lines = drawBoard(board, viewOf(80, 13))
    expect(lines).not.toContain('')
    expect(lines).toContain('  and 2 more')
  })

  test('needs-you keeps two items, and the selected one is shown', () => {
    const records = sampleRecords()
    const [first] = records.attention
    const items = Array.from({ length: 6 }, (_, at) => ({
      ...first,
      id: `tracker:${at}`,
      kind: 'tracker' as const,
      message: `trouble ${at}`,
      since: '',
    }))
    records.applyFrame({ type: 'attention', items: items.map(({ runId: _, ...rest }) => rest) })
    const crowded = boardOf(records)
    const troubles = (selected: string) =>
      drawBoard(crowded, viewOf(80, 19, { selected })).filter((line) => line.startsWith('!'))
    expect(troubles('run none').map((line) => line.slice(-1))).toEqual(['0', '1'])
    expect(troubles('need tracker:5').map((line) => line.slice(-1))).toEqual(['4', '5'])
    expect(drawBoard(crowded, viewOf(80, 40)).filter((line) => line.startsWith('!'))).toHaveLength(6)
  })

  test('of a hundred runs the selected one is always shown, and the others are counted', () => {
    const runs = [
      ...many(60, 'queued'),
      ...many(40, 'running').map((run) => ({ ...run, id: run.id.replace('1', '2') })),
    ]
    const crowded = boardOf(sampleRecords(runs))
    for (const { key } of crowded.unfinished) {
      const lines = layoutBoard(crowded, viewOf(80, 24, { selected: key }))
      expect(lines.filter(({ isSelected }) => isSelected)).toHaveLength(1)
      expect(lines.map(({ spans }) => spans.map(({ text }) => text).join('')).join('\n')).toMatch(
        /and \d+ more/,
      )
    }
  })

  test('at 60 columns today goes from the first line, and the first keys from the last', () => {
    const lines = drawBoard(board, viewOf(60, 24))
    expect(lines[0]).toBe('switchyard   4 active  3 queued  2 need you   15:32:10  live')
    expect(lines.at(-1)).toBe('l logs  a attach  c cancel  r retry  ? help  q quit')
    expect(lines).toContain('◦ ENG-245  queued      3m10s  ~$0.33  usage limit of codex …')
  })
})

describe('the first line', () => {
  const headOf = (more: object, columns = 80) => drawBoard(board, viewOf(columns, 24, more))[0]
  test('its right end is the connection', () => {
    expect(headOf({ feed: { is: 'reconnecting' } })).toMatch(/ 15:32:10 {2}reconnecting$/)
    expect(headOf({ feed: { is: 'stale', since: NOW - 60_000 } })).toMatch(/ 15:32:10 {2}stale since 15:31$/)
    expect(headOf({ feed: { is: 'stale', since: NOW - 60_000 } }, 60)).toMatch(
      /2 need you .*stale since 15:31$/,
    )
  })

  test('says when dispatching is paused, and when nothing needs anybody', () => {
    const records = sampleRecords(
      sampleRuns.filter(({ status }) => status === 'queued'),
      [],
    )
    records.applyFrame({ type: 'attention', items: [] })
    if (records.config === undefined) throw new Error('no configuration')
    const { config } = records
    records.applyFrame({ type: 'config', config: { ...config, policy: { ...config.policy, paused: true } } })
    expect(drawBoard(boardOf(records), viewOf(80, 24))[0]).toMatch(
      /^switchyard {3}paused {2}0 active {2}3 queued {2}nothing needs you .*live$/,
    )
  })
})

describe('characters and colours', () => {
  test('ASCII locales get ASCII glyphs and question marks, and cuts end with three dots', () => {
    const lines = drawBoard(board, viewOf(120, 40, { text: textFor({ LC_ALL: 'C' }, 120) }))
    expect(lines.join('\n')).toMatch(/^[\x20-\x7e\n]*$/)
    expect(lines[7]).toMatch(/^> ENG-231/)
    expect(lines[14]).toMatch(/^\+ ENG-219 {2}\?{9} {19}completed/)
    expect(lines[11]).toMatch(/2026-11-22T17:00\.\.\.$/)
  })

  test('the selected row is reversed up to the edge, active glyphs are bold, and NO_COLOR has no sequence', () => {
    const lines = layoutBoard(board, viewOf(80, 24))
    const painted = (env: NodeJS.ProcessEnv) =>
      lines.map((line) => paintLine(line, createColors({ isTTY: true }, env), 80))
    const colored = painted({})
    expect(colored[7]).toBe(
      `\x1b[7m${'▸ ENG-231  running     26m     $1.84  > Bash: npm test'.padEnd(80)}\x1b[27m`,
    )
    expect(colored[8]).toContain('\x1b[1m▸\x1b[22m ENG-238')
    expect(colored[3]).toContain('\x1b[35m!\x1b[39m ENG-228  failed')
    expect(colored[0]).toContain('\x1b[35m2 need you\x1b[39m')
    expect(painted({ NO_COLOR: '1' }).join('\n')).not.toContain('\x1b')
  })

  test('foreign text controls no terminal', () => {
    const hostile = sampleRun(9, 'queued', { agoMs: 0, title: '\x1b[2Jx', queueReason: 'a\nb\x1b]0;t\x07' })
    const lines = drawBoard(boardOf(sampleRecords([hostile], [])), viewOf(120, 40))
    // biome-ignore lint/suspicious/noControlCharactersInRegex: that is the point
    expect(lines.join('')).not.toMatch(/[\x00-\x1f]/)
  })
})

test('a message takes the place of the keys, wrapped', () => {
  const lines = drawBoard(board, viewOf(60, 24, { message: `Cancel ENG-231? ${'word '.repeat(15)}[y/N]` }))
  expect(lines).toHaveLength(24)
  expect(lines.slice(-2).join(' ')).toMatch(/^Cancel ENG-231\? word .*\[y\/N\]$/)
})

test('an empty board says how to begin', () => {
  const lines = drawBoard(empty, viewOf(80, 24))
  expect(lines[0]).toMatch(/^switchyard {3}0 active {2}0 queued {2}nothing needs you {3}today - /)
  expect(lines[3]).toBe('nothing runs; switchyard start "WORDS" queues a run')
})

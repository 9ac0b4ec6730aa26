/** The records of the board, its rows, and the selection among them. */
import { describe, expect, test } from '@jest/globals'
import { createBoard, keepSelection, moveSelection, selectableRows } from '../../../../bin/cli/top/board.ts'
import { logLinesOf, newestLineOf } from '../../../../bin/cli/top/board-records.ts'
import type { RunEvent } from '../../../../protocol/run.ts'
import { boardOf, NOW, PRESENT, runId, sampleRecords, sampleRun, sampleRuns } from './sample-board.ts'

const at = '2026-11-22T14:31:00.000Z'
const log = (
  number: number,
  index: number,
  text: string,
  stream: 'stdout' | 'stderr' = 'stdout',
): RunEvent => ({
  runId: runId(number),
  index,
  at,
  type: 'log',
  stream,
  text,
})
const keys = (records = sampleRecords()) => selectableRows(boardOf(records)).map(({ key }) => key)

describe('rows', () => {
  test('what needs somebody, active runs, queued runs, each the oldest first, then finished runs', () => {
    expect(keys()).toEqual([
      'need failed:228',
      'need review:219',
      ...[231, 238, 240, 242, 245, 247, 251, 219].map((number) => `run ${runId(number)}`),
    ])
  })

  test('a failed run stands among the runs as soon as it needs nobody', () => {
    const records = sampleRecords()
    records.applyFrame({ type: 'attention', items: [] })
    const { finished } = boardOf(records)
    expect(finished.map(({ run, last }) => [run.ticket.identifier, last])).toEqual([
      ['ENG-228', 'verify "npm test" exited with 1'],
      ['ENG-219', 'api#87 open'],
    ])
  })

  test('an item whose run the hello lacks is asked for, and gets its name', () => {
    const records = sampleRecords(sampleRuns.filter(({ status }) => status !== 'failed'))
    expect(records.unknownRuns()).toEqual([runId(228)])
    expect(boardOf(records).needs[0]?.name).toBe('failed')
    records.addRun(sampleRun(228, 'failed', { agoMs: 0, title: '' }))
    expect(boardOf(records).needs[0]?.name).toBe('ENG-228')
    expect(records.unknownRuns()).toEqual([])
  })

  test('a pushed run, worker or event changes its row', () => {
    const records = sampleRecords()
    records.applyFrame({ type: 'run-event', event: log(231, 8, 'one\ntwo\n\n') })
    expect(boardOf(records).unfinished[0]?.last).toBe('two')
    // Events that a request has read may be older than pushed ones.
    records.addEvents([log(231, 7, 'older\n')])
    expect(boardOf(records).unfinished[0]?.last).toBe('two')
    records.applyFrame({ type: 'run-updated', run: sampleRun(231, 'cancelled', { agoMs: 0, title: '' }) })
    expect(boardOf(records)).toMatchObject({ active: 3, finished: [{ run: { status: 'cancelled' } }, {}] })
    records.applyFrame({ type: 'workers', workers: [] })
    expect(boardOf(records).workers).toEqual([])
  })

  test('the costs of yesterday are not those of today', () => {
    const records = sampleRecords()
    expect(boardOf(records).cost).toBe('~$14.20')
    expect(createBoard(records, { ...PRESENT, now: NOW + 12 * 3_600_000 }).cost).toBeUndefined()
  })

  test('finished runs of a long watch are forgotten', () => {
    const records = sampleRecords()
    for (let number = 10_000; number < 11_000; number++)
      records.addRun(sampleRun(number, 'completed', { agoMs: 0, title: '' }))
    expect(records.runs.size).toBeLessThan(500)
    expect(records.runs.has(runId(10_999))).toBe(true)
    expect(boardOf(records).active).toBe(4)
  })
})

test.each<[string, RunEvent, string | undefined]>([
  ['standard output has no mark', log(1, 0, 'a\nb\n'), 'b'],
  ['standard error has one', log(1, 0, 'b\n', 'stderr'), '! b'],
  ['colours go, and a progress bar shows its last text', log(1, 0, '10%\r\x1b[32m20%\x1b[0m\n'), '20%'],
  ['empty lines say nothing', log(1, 0, '\n \n'), undefined],
  ['a state is in its own column', { runId: 'r', index: 0, at, type: 'status', to: 'running' }, undefined],
])('the last line: %s', (_, event, line) => {
  expect(newestLineOf(event)).toBe(line)
})

test('a state in the log has its worker, its agent or its reason', () => {
  const preparing: RunEvent = { runId: 'r', index: 0, at, type: 'status', to: 'preparing', worker: 'atlas' }
  expect(logLinesOf(preparing)).toEqual([{ index: 0, at, mark: '--', text: 'preparing', reason: 'on atlas' }])
})

describe('the log', () => {
  test('is read once, goes on with pushed events, and is read again after a gap', () => {
    const records = sampleRecords()
    records.selectLog(runId(231))
    expect(records.isLogIncomplete).toBe(true)
    records.setLog(runId(231), [log(231, 0, 'a'), log(231, 1, 'b')])
    expect(records.isLogIncomplete).toBe(false)
    for (const index of [1, 2]) records.applyFrame({ type: 'run-event', event: log(231, index, `${index}`) })
    expect(records.logLines.map(({ text }) => text)).toEqual(['a', 'b', '2'])
    records.applyFrame({ type: 'run-event', event: log(231, 4, '4') })
    expect(records.isLogIncomplete).toBe(true)
    // An answer from before the pushed event lacks it.
    records.setLog(runId(231), [log(231, 3, '3')])
    expect(records.isLogIncomplete).toBe(true)
    records.setLog(runId(231), [log(231, 3, '3'), log(231, 4, '4')])
    expect([records.isLogIncomplete, records.logLines.length]).toEqual([false, 2])
  })

  test('of another run is empty until it was read', () => {
    const records = sampleRecords()
    records.selectLog(runId(231))
    records.setLog(runId(231), [log(231, 0, 'a')])
    records.selectLog(runId(238))
    records.setLog(runId(231), [log(231, 0, 'late')])
    expect(records.logLines).toEqual([])
  })

  test('keeps the last lines of a long one', () => {
    const records = sampleRecords()
    records.selectLog(runId(231))
    for (let index = 0; index < 2_000; index++)
      records.applyFrame({ type: 'run-event', event: log(231, index, 'line\n'.repeat(50)) })
    expect(records.logLines.length).toBeLessThanOrEqual(400)
  })
})

describe('the selection', () => {
  const board = boardOf(sampleRecords())
  test('is the first run at first, and stops at the ends', () => {
    const first = keepSelection(undefined, undefined, board)
    expect(first).toBe(`run ${runId(231)}`)
    expect(moveSelection(board, first, -1)).toBe('need review:219')
    expect(moveSelection(board, 'need failed:228', -1)).toBe('need failed:228')
    expect(moveSelection(board, `run ${runId(219)}`, 1)).toBe(`run ${runId(219)}`)
  })

  test('follows a run that has failed to where it needs somebody', () => {
    const records = sampleRecords()
    records.applyFrame({ type: 'run-updated', run: sampleRun(238, 'failed', { agoMs: 0, title: '' }) })
    const item = {
      id: 'failed:238',
      kind: 'failed' as const,
      message: 'failed',
      runId: runId(238),
      since: at,
    }
    records.applyFrame({ type: 'attention', items: [item] })
    expect(keepSelection(`run ${runId(238)}`, board, boardOf(records))).toBe('need failed:238')
  })

  test('stays with the unfinished runs until a person moves it', () => {
    const records = sampleRecords()
    records.applyFrame({ type: 'run-updated', run: sampleRun(231, 'completed', { agoMs: 0, title: '' }) })
    const ended = `run ${runId(231)}`
    expect(keepSelection(ended, board, boardOf(records), false)).toBe(`run ${runId(238)}`)
    expect(keepSelection(ended, board, boardOf(records), true)).toBe(ended)
  })

  test('goes to the row that took the place of one that is gone, or nowhere', () => {
    const records = sampleRecords(sampleRuns.filter(({ id }) => id !== runId(238)))
    expect(keepSelection(`run ${runId(238)}`, board, boardOf(records))).toBe(`run ${runId(240)}`)
    expect(keepSelection(`run ${runId(238)}`, board, boardOf(sampleRecords([], [])))).toBeUndefined()
  })
})

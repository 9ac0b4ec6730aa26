/** The log of a run as rows: what events say, what is folded, filtered, found, linked and coloured. */
import { describe, expect, test } from '@jest/globals'
import fc from 'fast-check'
import type { RunEvent } from '../../../protocol/run.ts'
import {
  cleanLine,
  LINE_CHARS_MAX,
  plainText,
  splitLines,
} from '../../../web/dashboard/run/log/clean-text.ts'
import { coloredSpans, contrast, legibleColor } from '../../../web/dashboard/run/log/colored-text.ts'
import { LogSearch } from '../../../web/dashboard/run/log/log-finder.ts'
import { LINES_MAX } from '../../../web/dashboard/run/log/log-lines.ts'
import { LogModel } from '../../../web/dashboard/run/log/log-model.ts'
import { extendLines, formatLines, parseLines } from '../../../web/dashboard/run/log/log-view.ts'
import { isErrorLine } from '../../../web/dashboard/run/log/tool-words.ts'

type Fields = RunEvent extends infer E
  ? E extends RunEvent
    ? Omit<E, 'runId' | 'index' | 'at'>
    : never
  : never

const START = Date.parse('2026-11-23T13:54:19.000Z')

/** Events with indexes from `first` on, a second apart. */
const eventsOf = (first: number, fields: readonly Fields[]): RunEvent[] =>
  fields.map((each, at) => ({
    runId: 'run-1',
    index: first + at,
    at: new Date(START + (first + at) * 1_000).toISOString(),
    ...each,
  }))

const log = (text: string, stream: 'stdout' | 'stderr' | 'system' = 'stdout'): Fields => ({
  type: 'log',
  stream,
  text,
})
const agent = (message: Record<string, unknown>): Fields => ({ type: 'agent', provider: 'agentA', message })
const assistant = (...content: object[]): Fields =>
  agent({ type: 'assistant', message: { role: 'assistant', content } })
const answer = (content: object): Fields =>
  agent({ type: 'user', message: { role: 'user', content: [content] } })

function modelOf(fields: readonly Fields[], first = 0): LogModel {
  const model = new LogModel()
  model.append(eventsOf(first, fields), { from: first, to: first + fields.length })
  return model
}

/** The rows in short: kind, text, outcome, repeats. */
const shown = (model: LogModel): string[] =>
  Array.from({ length: model.rowCount }, (_, row) => {
    const id = model.lineOf(row)
    const outcome = model.outcomeOf(id)
    const [text, repeats] = [model.lines.text(id).replaceAll('\u0001', '|'), model.repeats(row)]
    return `${model.lines.kind(id)}: ${text}${outcome === undefined ? '' : ` → ${outcome.text}`}${repeats > 1 ? ` × ${repeats}` : ''}`
  })

describe('rows of events', () => {
  test('each kind of event says its own', () => {
    const model = modelOf([
      { type: 'status', to: 'preparing', worker: 'kestrel-01' },
      log('Lease accepted', 'system'),
      log("Cloning into 'api'...\nadded 812 packages\n"),
      { type: 'status', to: 'failed', reason: 'the agent ended with code 1' },
      { type: 'artifact', name: 'coverage.html', size: 412_000, contentType: 'text/html' },
      { type: 'limit', provider: 'agentA', message: 'resets at 5pm' },
      { type: 'gap', from: 233, to: 1_436 },
    ])
    expect(shown(model)).toEqual([
      'phase: Preparing on kestrel-01',
      'system: Lease accepted',
      "output: Cloning into 'api'...",
      'output: added 812 packages',
      'phase: Failed|the agent ended with code 1',
      'system: Artifact coverage.html, 402 KiB',
      'system: Usage limit: resets at 5pm',
      'gap: 1,204 reports of the worker are missing (#233 to #1,436). Its buffer was full while it was offline. State and costs are complete.',
    ])
    expect(model.endOfPhase(model.lineOf(0))).toBe(START + 3_000)
    expect(model.lines.part(model.lineOf(3))).toBe(1)
  })

  test.each<[string, Fields[], string[]]>([
    [
      'Claude Code',
      [
        assistant({ type: 'text', text: 'Plan:\nfirst this.' }),
        assistant(
          { type: 'tool_use', id: 'a', name: 'Grep', input: { pattern: 'setTimeout', path: 'src' } },
          {
            type: 'tool_use',
            id: 'b',
            name: 'Edit',
            input: { file_path: 'a.ts', old_string: 'x', new_string: 'y\nz' },
          },
          { type: 'tool_use', id: 'c', name: 'Bash', input: { command: 'npm test' } },
        ),
        answer({ type: 'tool_result', tool_use_id: 'a', content: 'a.ts\nb.ts' }),
        answer({ type: 'tool_result', tool_use_id: 'b', content: 'The file a.ts was edited' }),
        answer({
          type: 'tool_result',
          tool_use_id: 'c',
          content: [{ type: 'text', text: 'exit 1\nmore' }],
          is_error: true,
        }),
      ],
      [
        'words: Plan:\nfirst this.',
        'tool: Search|"setTimeout" in src → 2 matches',
        'tool: Edit|a.ts|+2|−1 → ',
        'tool: Run|npm test → exit 1',
      ],
    ],
    [
      'Codex',
      [
        agent({
          type: 'item.started',
          item: { id: 'i', type: 'command_execution', command: "/bin/bash -lc 'echo hi'" },
        }),
        agent({
          type: 'item.completed',
          item: {
            id: 'i',
            type: 'command_execution',
            command: 'x',
            aggregated_output: 'hi\nyou\n',
            exit_code: 0,
          },
        }),
        agent({ type: 'error', message: 'Reconnecting... 2/5' }),
      ],
      ['tool: Run|echo hi → 2 lines', 'words: Reconnecting... 2/5'],
    ],
    [
      'Gemini CLI',
      [
        agent({ type: 'message', role: 'user', content: 'the prompt' }),
        agent({ type: 'tool_use', tool_name: 'read_file', tool_id: 't', parameters: { path: 'a.ts' } }),
        agent({ type: 'tool_result', tool_id: 't', status: 'success', output: 'hi' }),
        agent({ type: 'message', role: 'assistant', content: 'All done.', delta: true }),
      ],
      ['tool: Read|a.ts → hi', 'words: All done.'],
    ],
  ])('messages of %s', (_, fields, rows) => {
    expect(shown(modelOf(fields))).toEqual(rows)
  })

  test('an outcome waits for its call, which is older and read later', async () => {
    const all = [
      assistant({ type: 'tool_use', id: 'a', name: 'Read', input: { file_path: 'a.ts' } }),
      answer({ type: 'tool_result', tool_use_id: 'a', content: '1\n2\n3' }),
    ]
    const model = new LogModel()
    const events = eventsOf(0, all)
    model.append(events.slice(1), { from: 1, to: 2 })
    await model.prepend(events.slice(0, 1), { from: 0, to: 1 })
    expect(shown(model)).toEqual(['tool: Read|a.ts → 3 lines'])
  })

  const tested = [
    assistant({ type: 'tool_use', id: 'a', name: 'Bash', input: { command: 'npm test' } }),
    answer({
      type: 'tool_result',
      tool_use_id: 'a',
      content: 'FAIL src/cart.test.ts\nok\nok\n  ✕ adds the tax',
    }),
    assistant({ type: 'tool_use', id: 'b', name: 'Read', input: { file_path: 'log.txt' } }),
    answer({ type: 'tool_result', tool_use_id: 'b', content: 'Error: an old one\nmore' }),
    log('done'),
  ]

  test('what a tool printed is shown once its row is opened', () => {
    const model = modelOf(tested)
    const closed = ['tool: Run|npm test → 4 lines', 'tool: Read|log.txt → 2 lines', 'output: done']
    expect(shown(model)).toEqual(closed)
    const event = model.outcomeOf(model.lineOf(0))?.output ?? -1
    model.toggleOutput(event)
    expect(shown(model).slice(0, 5)).toEqual([
      'tool: Run|npm test → 4 lines',
      'tool-output: FAIL src/cart.test.ts',
      'tool-output: ok × 2',
      'tool-output:   ✕ adds the tax',
      'tool: Read|log.txt → 2 lines',
    ])
    model.toggleOutput(event)
    expect(shown(model)).toEqual(closed)
    // The rows that would open it are of another kind.
    model.filter = 'output'
    expect(shown(model).slice(0, 2)).toEqual(['tool-output: FAIL src/cart.test.ts', 'tool-output: ok × 2'])
  })

  test('a closed output is searched, has the first error, and is opened for it', () => {
    const model = modelOf(tested)
    const search = new LogSearch(model, 'ADDS the')
    search.step(() => false)
    expect(search.matches).toEqual([])
    const found = new LogSearch(model, 'adds the')
    found.step(() => false)
    const [match = -1] = found.matches
    expect([model.open(match), model.open(match)]).toEqual([true, false])
    expect(model.lines.text(model.lineOf(model.rowOf(match)))).toBe('  ✕ adds the tax')
    const first = model.findError(undefined, 1) ?? -1
    expect(model.lines.text(first)).toBe('FAIL src/cart.test.ts')
    // A file may be about errors.
    expect(model.lines.text(model.findError(undefined, -1) ?? -1)).toBe('  ✕ adds the tax')
  })

  test('a tool that failed is shown by its first error', () => {
    const content = 'PASS src/a.test.ts\nFAIL src/cart.test.ts\n  expected 60000'
    const model = modelOf([
      assistant({ type: 'tool_use', id: 'a', name: 'Bash', input: { command: 'npm test' } }),
      answer({ type: 'tool_result', tool_use_id: 'a', content, is_error: true }),
    ])
    expect(shown(model)).toEqual(['tool: Run|npm test → FAIL src/cart.test.ts'])
    expect(model.lines.text(model.findError(undefined, 1) ?? -1)).toBe('FAIL src/cart.test.ts')
  })

  test('a tool that failed has an error, whatever it printed', () => {
    const model = modelOf([
      assistant({ type: 'tool_use', id: 'a', name: 'Bash', input: { command: 'false' } }),
      answer({ type: 'tool_result', tool_use_id: 'a', content: 'Exit code 1\nnothing more', is_error: true }),
    ])
    expect(model.lines.text(model.findError(undefined, 1) ?? -1)).toBe('Exit code 1')
  })

  test('a text that arrives in pieces is one line', async () => {
    const piece = (content: string) => agent({ type: 'message', role: 'assistant', content, delta: true })
    const tool = agent({ type: 'tool_use', tool_name: 'read_file', tool_id: 't', parameters: { path: 'a' } })
    const all = eventsOf(0, [piece('All'), piece(' is\nwell.'), piece(' '), tool, piece('Now')])
    const model = new LogModel()
    for (const event of all.slice(1)) model.append([event], { from: event.index, to: event.index + 1 })
    await model.prepend(all.slice(0, 1), { from: 0, to: 1 })
    expect(shown(model)).toEqual(['words: All', 'words:  is\nwell. ', 'tool: Read|a', 'words: Now'])
    const whole = new LogModel()
    whole.append(all, { from: 0, to: 5 })
    expect(shown(whole)).toEqual(['words: All is\nwell. ', 'tool: Read|a', 'words: Now'])
  })

  test('indexes that no event has are gaps', () => {
    const model = new LogModel()
    model.append(eventsOf(5, [log('a')]), { from: 2, to: 8 })
    expect(shown(model)).toEqual([
      'gap: 3 events are missing (#3 to #5). The host could not read them from its disk.',
      'output: a',
      'gap: 2 events are missing (#7 to #8). The host could not read them from its disk.',
    ])
  })
})

describe('folding, filters, errors', () => {
  const fields = [
    { type: 'status', to: 'running' } as const,
    log('waiting\nwaiting\nwaiting'),
    log('\n\n'),
    assistant({ type: 'text', text: 'waiting' }),
    log('Error: the cap', 'stderr'),
    log('waiting'),
  ]

  test('identical lines in a row are one row until it is unfolded', () => {
    const model = modelOf(fields)
    expect(shown(model)).toEqual([
      'phase: Running',
      'output: waiting × 3',
      'output: ',
      'output: ',
      'words: waiting',
      'error-output: Error: the cap',
      'output: waiting',
    ])
    expect(model.repeatedUntil(1)).toBe(START + 1_000)
    model.append(eventsOf(6, [log('waiting')]), { from: 6, to: 7 })
    expect(shown(model).at(-1)).toBe('output: waiting × 2')
    model.unfold(1)
    expect(model.rowCount).toBe(9)
    model.isFolding = false
    expect(model.rowCount).toBe(10)
  })

  test('a filter keeps phases and gaps', () => {
    const model = modelOf(fields)
    model.filter = 'agent'
    expect(shown(model)).toEqual(['phase: Running', 'words: waiting'])
    model.append(eventsOf(6, [log('more'), assistant({ type: 'text', text: 'Done.' })]), { from: 6, to: 8 })
    expect(shown(model)).toEqual(['phase: Running', 'words: waiting', 'words: Done.'])
    expect(model.findError(undefined, 1)).toBeUndefined()
  })

  test('errors are found in both directions', () => {
    const model = modelOf([log('fine'), log('Error: a', 'stderr'), log('fine'), log('fatal: b')])
    const [first, second] = [model.findError(undefined, 1), model.findError(undefined, -1)]
    expect([first, second].map((id) => model.lines.text(id ?? -1))).toEqual(['Error: a', 'fatal: b'])
    expect(model.findError(first, 1)).toBe(second)
    expect(model.findError(first, -1)).toBeUndefined()
  })

  test('a row is found by its line, also by one that is folded or hidden', () => {
    const model = modelOf(fields)
    const at = (event: number, part = 0) => model.rowOf(model.lines.find(event, part) ?? -1)
    expect([at(0), at(1), at(1, 2), at(3), at(5)]).toEqual([0, 1, 1, 4, 6])
    model.filter = 'system'
    expect(at(5)).toBe(0)
  })

  test('rows made line by line are those made at once', async () => {
    const text = fc.constantFrom('a', 'a', 'b', '', 'Error: x')
    await fc.assert(
      fc.asyncProperty(
        fc.array(text, { maxLength: 40 }),
        fc.nat(40),
        fc.constantFrom('all', 'output', 'agent'),
        async (texts, split, filter) => {
          const events = texts.map((each) => log(each))
          const middle = Math.min(split, events.length)
          const model = new LogModel()
          model.filter = filter
          const all = eventsOf(0, events)
          for (const event of all.slice(middle))
            model.append([event], { from: event.index, to: event.index + 1 })
          await model.prepend(all.slice(0, middle), { from: 0, to: middle })
          const whole = new LogModel()
          whole.filter = filter
          whole.append(all, { from: 0, to: all.length })
          expect(shown(model)).toEqual(shown(whole))
        },
      ),
    )
  })

  test('old lines go in steps, whole events at a time', () => {
    const model = modelOf([
      log(Array.from({ length: LINES_MAX }, (_, at) => String(at)).join('\n')),
      log('a\nb'),
    ])
    expect(model.trim()).toBe(1)
    expect(shown(model)).toEqual(['output: a', 'output: b'])
    expect(model.trim()).toBeUndefined()
    model.clear()
    expect(model.rowCount).toBe(0)
  })
})

describe('search', () => {
  const model = modelOf([log('\u001b[31mFAIL\u001b[0m src/a.test.ts'), log('fail again'), log('fine')])

  test.each([
    ['fail', 2],
    ['FAIL', 1],
    ['fail src', 1],
    ['(', 0],
  ])('%s is on %i lines', (query, count) => {
    const search = new LogSearch(model, query)
    search.step(() => false)
    expect([search.matches.length, search.isDone]).toEqual([count, true])
  })

  test('goes on with new lines, and yields in between', () => {
    const large = modelOf([log(Array.from({ length: 9_000 }, (_, at) => `line ${at} x`).join('\n'))])
    const search = new LogSearch(large, 'x')
    search.step(() => true)
    expect([search.isDone, search.matches.length]).toEqual([false, 2_000])
    search.step(() => false)
    large.append(eventsOf(1, [log('x')]), { from: 1, to: 2 })
    search.step(() => false)
    expect(search.matches).toHaveLength(9_001)
    expect(search.rangesIn('x and x')).toEqual([
      [0, 1],
      [6, 7],
    ])
  })
})

describe('texts', () => {
  test.each([
    ['10%\r50%\r100%', '100%'],
    ['windows\r', 'windows'],
    ['\u001b[2K\u001b[1Gdone\u001b]0;title\u0007', 'done'],
    ['\u001b[31mred\u001b[0m', '\u001b[31mred\u001b[0m'],
    ['a\u0007b\u009bc', 'abc'],
    ['evil\u202etxt', 'evil\ufffdtxt'],
    ['tab\tstays', 'tab\tstays'],
  ])('%j is shown as %j', (line, text) => {
    expect(cleanLine(line)).toBe(text)
  })

  test('a very long line keeps its beginning', () => {
    const text = cleanLine('x'.repeat(300_000))
    expect(text).toBe(`${'x'.repeat(LINE_CHARS_MAX)}… 300,000 characters`)
  })

  test('a line end at the end begins no line', () => {
    expect(splitLines('a\n\nb\n')).toEqual(['a', '', 'b'])
    expect(splitLines('')).toEqual([''])
  })

  test('colours are classes, and never change the letters', () => {
    expect(coloredSpans('\u001b[1;31mFAIL\u001b[0m <b> & \u001b[38;2;1;2;3mx\u001b[0m')).toEqual([
      { text: 'FAIL', classes: 'ansi-red-fg ansi-bold' },
      { text: ' <b> & ', classes: '' },
      { text: 'x', classes: '', color: [1, 2, 3] },
    ])
    const part = fc.constantFrom(
      '\u001b[31m',
      '\u001b[0m',
      '\u001b',
      '[',
      '\u001b[38;5;200m',
      '<',
      '&',
      "'",
      'a',
      ' ',
      '\u001b]8;;http://x\u0007',
      '\u001b(B',
      '"',
    )
    fc.assert(
      fc.property(fc.array(part, { maxLength: 20 }), (parts) => {
        const line = cleanLine(parts.join(''))
        expect(
          coloredSpans(line)
            .map(({ text }) => text)
            .join(''),
        ).toBe(plainText(line))
      }),
    )
  })

  test('every colour becomes legible in both themes', () => {
    const channel = fc.integer({ min: 0, max: 255 })
    fc.assert(
      fc.property(fc.tuple(channel, channel, channel), (color) => {
        for (const surface of [
          [255, 255, 255],
          [25, 26, 29],
        ] as const)
          expect(contrast(legibleColor(color, surface), surface)).toBeGreaterThanOrEqual(4.5)
      }),
    )
  })

  test.each([
    ['stderr', 'npm warn deprecated', false],
    ['stderr', 'Cloning into api', false],
    ['stderr', 'TypeError: x is not a function', true],
    ['stderr', 'build failed', true],
    ['stderr', '0 errors, 2 warnings', false],
    ['stdout', 'the error is handled', false],
    ['stdout', 'FAIL src/a.test.ts', true],
    ['stdout', 'src/a.ts(1,2): error TS2554: Expected', false],
    ['stdout', 'error TS2554: Expected', true],
    ['stdout', 'Error: boom', true],
  ] as const)('%s %j is an error: %s', (stream, text, isError) => {
    expect(isErrorLine(stream, text)).toBe(isError)
  })
})

describe('lines in the address', () => {
  test.each(['L12', 'L12-L18', 'L12.3', 'L12.2-L12.9'])('%s', (text) => {
    const range = parseLines(text)
    expect(range === undefined ? undefined : formatLines(range)).toBe(text)
  })

  test.each(['', 'L0', 'L', 'L1-L2-L3', 'x', 'L1x', 'L9999999999999'])('%j is no line', (text) => {
    expect(parseLines(text)).toBeUndefined()
  })

  test('a range reaches to the point, backwards too', () => {
    const range = parseLines('L12-L18')
    const point = (event: number) => ({ event, part: 0 })
    expect(formatLines(extendLines(range, point(19)))).toBe('L12-L20')
    expect(formatLines(extendLines(range, point(4)))).toBe('L5-L18')
    expect(formatLines(extendLines(undefined, point(4)))).toBe('L5')
    expect(parseLines('L18-L12')).toEqual(range)
  })
})

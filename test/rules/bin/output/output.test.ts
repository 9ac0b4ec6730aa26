/** Streams and formats of what a command prints. */
import { describe, expect, test } from '@jest/globals'
import { formatError, Output, type OutputOptions, type RecordList } from '../../../../bin/output/output.ts'
import { MemoryStream } from '../../../support/memory-stream.ts'

function outputOn({ terminal, ...more }: Partial<OutputOptions> & { readonly terminal?: number } = {}) {
  const size = terminal === undefined ? {} : { columns: terminal }
  const [stdout, stderr] = [new MemoryStream(size), new MemoryStream(size)]
  const exits: number[] = []
  const exit = (code: number) => void exits.push(code)
  const env = { LANG: 'C.UTF-8' }
  const output = new Output({ stdout, stderr, env, platform: 'linux', exit, ...more })
  return { output, stdout, stderr, exits }
}

interface Row {
  readonly id: string
  readonly title: string
}

const list: RecordList<Row> = {
  records: [{ id: 'run-1', title: 'a' }],
  columns: [
    {
      heading: 'ID',
      cell: ({ id }) => id.slice(4),
      plain: ({ id }) => id,
    },
    { heading: 'TITLE', cell: ({ title }) => title },
  ],
  id: ({ id }) => id,
  empty: 'no run waits',
}

test('data goes to standard output and words to standard error', () => {
  const { output, stdout, stderr } = outputOn()
  output.data('ENG-251 created')
  output.note('Stopped watching; ENG-231 goes on.')
  output.warn('connection lost, trying again')
  output.next('switchyard followup ENG-219', 'switchyard pulls merge ENG-219')
  expect(stdout.text).toBe('ENG-251 created\n')
  expect(stderr.text).toBe(
    [
      'Stopped watching; ENG-231 goes on.',
      'switchyard: connection lost, trying again',
      'Next: switchyard followup ENG-219   or   switchyard pulls merge ENG-219\n',
    ].join('\n'),
  )
})

test('the next commands stand below each other where they do not fit beside each other', () => {
  const { output, stderr } = outputOn({ terminal: 60 })
  output.next('switchyard followup ENG-219', 'switchyard pulls merge ENG-219')
  expect(stderr.text).toBe('Next: switchyard followup ENG-219\n  or  switchyard pulls merge ENG-219\n')
})

test.each<Partial<OutputOptions>>([{ quiet: true }, { format: 'json' }])('%j leaves words out', (options) => {
  const { output, stderr } = outputOn(options)
  output.note('a')
  output.warn('b')
  output.next('c')
  expect(stderr.text).toBe('')
})

describe('a list', () => {
  test.each<[string, Parameters<typeof outputOn>[0], string]>([
    ['a table on a terminal', { terminal: 80, color: 'never' }, 'ID  TITLE\n1   a\n'],
    ['values elsewhere', {}, 'ID\tTITLE\nrun-1\ta\n'],
    ['ids', { format: 'id' }, 'run-1\n'],
    ['JSON in one line', { format: 'json' }, '[{"id":"run-1","title":"a"}]\n'],
    [
      'indented JSON on a terminal',
      { format: 'json', terminal: 80 },
      '[\n  {\n    "id": "run-1",\n    "title": "a"\n  }\n]\n',
    ],
  ])('is %s', (_, options, text) => {
    const { output, stdout } = outputOn(options)
    output.list(list)
    expect(stdout.text).toBe(text)
  })

  test.each<[Parameters<typeof outputOn>[0], string, string]>([
    [{ terminal: 80 }, '', 'no run waits\n'],
    [{}, 'ID\tTITLE\n', 'no run waits\n'],
    [{ format: 'json' }, '[]\n', ''],
    [{ format: 'id' }, '', ''],
  ])('without records on %j', (options, data, words) => {
    const { output, stdout, stderr } = outputOn(options)
    output.list({ ...list, records: [] })
    expect([stdout.text, stderr.text]).toEqual([data, words])
  })
})

describe('JSON', () => {
  test('of a stream is one line on a terminal, too', () => {
    const { output, stdout } = outputOn({ terminal: 80 })
    output.jsonLine({ a: 1 })
    expect(stdout.text).toBe('{"a":1}\n')
  })

  test('reaches a program unchanged, and a terminal without control characters', () => {
    const record = { text: 'a\u009bb\u{e0001}👩‍👧\u2028' }
    const [pipe, terminal] = [outputOn(), outputOn({ terminal: 80 })]
    pipe.output.jsonLine(record)
    terminal.output.jsonLine(record)
    expect(pipe.stdout.text).toBe(`${JSON.stringify(record)}\n`)
    expect(terminal.stdout.text).toBe('{"text":"a\\u009bb\\udb40\\udc01👩‍👧\\u2028"}\n')
    expect(JSON.parse(terminal.stdout.text)).toEqual(record)
  })
})

describe('errors', () => {
  const bold = (text: string) => `<${text}>`
  const colors = { ...outputOn().output.stderr.colors, failure: bold }

  test.each<[Parameters<typeof formatError>, string]>([
    [[{ message: 'it failed' }], 'switchyard: it failed\n'],
    [
      [{ message: 'no host is running', cure: 'switchyard serve' }],
      'switchyard: no host is running\n  try: switchyard serve\n',
    ],
    [[{ message: 'it failed' }, { colors }], '<switchyard:> it failed\n'],
    [
      [{ message: 'one two three', cure: 'a long command that is copied' }, { width: 18 }],
      'switchyard: one\ntwo three\n  try: a long command that is copied\n',
    ],
    [[{ message: 'a\nb' }, { asJson: true }], '{"error":"a\\nb"}\n'],
    [[{ message: 'a', cure: 'b' }, { asJson: true }], '{"error":"a","cure":"b"}\n'],
  ])('%j', (args, text) => {
    expect(formatError(...args)).toBe(text)
  })

  test('are printed with --quiet, and as JSON with --json, on standard error alone', () => {
    const [quiet, json] = [outputOn({ quiet: true }), outputOn({ format: 'json' })]
    quiet.output.error('it failed', 'mend it')
    json.output.error('it failed', 'mend it')
    expect(quiet.stderr.text).toBe('switchyard: it failed\n  try: mend it\n')
    expect(json.stderr.text).toBe('{"error":"it failed","cure":"mend it"}\n')
    expect(json.stdout.text).toBe('')
  })
})

test('a closed pipe ends the command with 0, another write error with 70', () => {
  const [closed, full] = [outputOn(), outputOn()]
  closed.stdout.emit('error', Object.assign(new Error(), { code: 'EPIPE' }))
  full.stdout.emit('error', Object.assign(new Error(), { code: 'ENOSPC' }))
  expect([closed.exits, closed.stderr.text]).toEqual([[0], ''])
  expect([full.exits, full.stderr.text]).toEqual([
    [70],
    'switchyard: standard output cannot be written (ENOSPC)\n',
  ])
  expect(() => closed.stderr.emit('error', new Error())).not.toThrow()
})

test('a slow reader is waited for', async () => {
  const { output, stdout } = outputOn()
  await output.drained()
  stdout.isReady = false
  output.data('a')
  output.data('b')
  let isDrained = false
  const drained = output.drained().then(() => {
    isDrained = true
  })
  await Promise.resolve()
  expect(isDrained).toBe(false)
  stdout.emit('drain')
  await drained
  expect(stdout.text).toBe('a\nb\n')
})

describe('a stream', () => {
  test('has a width of 80 when it does not know its size', () => {
    expect(outputOn({ terminal: 0 }).output.stdout.width).toBe(80)
    expect(outputOn({ terminal: 60 }).output.stdout.width).toBe(60)
  })

  test('truncates and draws glyphs on a terminal only', () => {
    const [pipe, terminal] = [outputOn().output.stdout, outputOn({ terminal: 6 }).output.stdout]
    expect([pipe, terminal].map((stream) => stream.truncate('does not fit'))).toEqual([
      'does not fit',
      'does …',
    ])
    expect([pipe, terminal].map((stream) => stream.glyph('running').text)).toEqual(['', '▸'])
  })

  test('aligns two texts with the ends of the line', () => {
    const ends = ['ENG-231  Rate limit login attempts', 'running for 25m'] as const
    const shown = [undefined, 60, 50, 40].map((terminal) =>
      outputOn(terminal === undefined ? {} : { terminal }).output.stdout.alignEnds(...ends),
    )
    expect(shown).toEqual([
      'ENG-231  Rate limit login attempts  running for 25m',
      'ENG-231  Rate limit login attempts           running for 25m',
      'ENG-231  Rate limit login attemp…  running for 25m',
      'ENG-231  Rate limit login attempts\n  running for 25m',
    ])
  })

  test('shows only ASCII on a terminal of locale C; a program gets the text', () => {
    const env = { LANG: 'C' }
    const [pipe, terminal] = [outputOn({ env }).output.stdout, outputOn({ env, terminal: 80 }).output.stdout]
    expect([pipe, terminal].map((stream) => stream.clean('登\x07'))).toEqual(['登?', '??'])
  })
})

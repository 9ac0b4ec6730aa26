/** The line of a step that goes on: when it shows, how often it is redrawn, and where there is none. */
import { expect, test } from '@jest/globals'
import { Output, type OutputOptions } from '../../../../bin/output/output.ts'
import { mayRedraw, ProgressLine } from '../../../../bin/output/progress-line.ts'
import { ManualClock } from '../../../support/manual-clock.ts'
import { MemoryStream } from '../../../support/memory-stream.ts'

const ERASE = '\r\x1b[K'
const COPIED = '3/6 copy     ok     3.9s  21 MiB'

function progressOn(columns: number | undefined, more: Partial<OutputOptions> = {}, env = {}) {
  const size = columns === undefined ? {} : { columns }
  const [stdout, stderr] = [new MemoryStream(size), new MemoryStream(size)]
  const clock = new ManualClock()
  const output = new Output({
    stdout,
    stderr,
    env: { LANG: 'C.UTF-8', ...env },
    platform: 'linux',
    color: 'never',
    exit: () => {},
    ...more,
  })
  return { progress: new ProgressLine(output, env, clock), output, stderr, clock }
}

test('a step shows after 400 ms, is redrawn four times a second, and is gone when it is over', async () => {
  const { progress, stderr, clock } = progressOn(80)
  progress.begin('3/6 copy')
  await clock.advance(399)
  expect(stderr.read()).toBe('')
  progress.update('12 of 21 MiB')
  await clock.advance(1)
  expect(stderr.read()).toBe('3/6 copy  12 of 21 MiB  0s')
  for (const done of [13, 14, 15]) progress.update(`${done} of 21 MiB`)
  await clock.advance(249)
  expect(stderr.read()).toBe('')
  await clock.advance(751)
  expect(stderr.read()).toBe(
    ['0s', '0s', '1s', '1s'].map((age) => `${ERASE}3/6 copy  15 of 21 MiB  ${age}`).join(''),
  )
  progress.finish()
  expect([stderr.read(), clock.timers]).toEqual([ERASE, 0])
})

test('a short step shows nothing but its last line', async () => {
  const { progress, stderr, clock } = progressOn(80)
  progress.begin('3/6 copy')
  await clock.advance(300)
  progress.finish(COPIED)
  await clock.advance(1_000)
  expect(stderr.text).toBe(`${COPIED}\n`)
})

test('other words are printed above the step', async () => {
  const { progress, output, stderr, clock } = progressOn(80)
  progress.begin('wait')
  await clock.advance(400)
  stderr.read()
  output.note('connection lost')
  expect(stderr.read()).toBe(`${ERASE}connection lost\n`)
  await clock.advance(250)
  expect(stderr.read()).toBe('wait  0s')
  progress.begin('next step')
  expect(stderr.read()).toBe(ERASE)
})

test('a line is truncated before the last column of the terminal', async () => {
  const { progress, stderr, clock } = progressOn(20)
  progress.begin('copy', 'a very long description')
  await clock.advance(400)
  expect(stderr.text).toBe('copy  a very long …')
})

test.each<[string, number | undefined, Partial<OutputOptions>, NodeJS.ProcessEnv, string]>([
  ['a pipe', undefined, {}, {}, `${COPIED}\n`],
  ['a build', 80, {}, { CI: 'true' }, `${COPIED}\n`],
  ['a dumb terminal', 80, {}, { TERM: 'dumb' }, `${COPIED}\n`],
  ['--quiet', 80, { quiet: true }, {}, ''],
  ['--json', 80, { format: 'json' }, {}, ''],
])('%s has no redrawn line', async (_, columns, options, env, text) => {
  const { progress, stderr, clock } = progressOn(columns, options, env)
  progress.begin('3/6 copy')
  await clock.advance(4_000)
  progress.finish(COPIED)
  progress.begin('4/6 install')
  await clock.advance(4_000)
  progress.finish()
  expect(stderr.text).toBe(text)
})

test.each<[boolean, NodeJS.ProcessEnv, boolean]>([
  [true, {}, true],
  [true, { TERM: 'xterm', CI: '' }, true],
  [true, { TERM: 'dumb' }, false],
  [true, { CI: '1' }, false],
  [false, {}, false],
])('a terminal (%s) with %j is redrawn: %s', (isTTY, env, expected) => {
  expect(mayRedraw({ isTTY }, env)).toBe(expected)
})

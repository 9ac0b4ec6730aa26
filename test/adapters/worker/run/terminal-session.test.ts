/** The worker's end of a booted sandbox's terminal, for every kind of output from the sandbox. */
import { PassThrough } from 'node:stream'
import { expect, test } from '@jest/globals'
import type { TerminalSessionListener } from '../../../../core/daemon/terminal.ts'
import { ATTACH_INPUT_BYTES_AT_ONCE } from '../../../../protocol/limits.ts'
import { encodeExit, encodeFrame, PtyFrameReader } from '../../../../worker/inside/terminal/frames.ts'
import { SandboxTerminal } from '../../../../worker/run/resume/terminal-session.ts'
import type { SandboxEnd } from '../../../../worker/sandbox/driver.ts'

const nextTick = () => new Promise((resolve) => setImmediate(resolve))

function openTerminal() {
  const [stdout, stderr, input] = [new PassThrough(), new PassThrough(), new PassThrough()]
  const events: string[] = []
  let end: (end: SandboxEnd) => void = () => {}
  const ended = new Promise<SandboxEnd>((resolve) => {
    end = resolve
  })
  const kill = () => void events.push('killed')
  const listener: TerminalSessionListener = {
    onOutput: (data) => void events.push(data),
    onExit: (code) => void events.push(`ended ${code}`),
  }
  const session = new SandboxTerminal({ stdout, stderr, input, kill, interrupt: () => {}, ended }, listener)
  return { stdout, stderr, input, events, session, end }
}

test('characters that are split between chunks arrive whole', async () => {
  const { stdout, events } = openTerminal()
  const text = Buffer.from('a世🌍é')
  for (const byte of text) stdout.write(encodeFrame('output', Uint8Array.of(byte)))
  await nextTick()
  expect([events.join(''), events.some((data) => data.includes('\ufffd'))]).toEqual(['a世🌍é', false])
})

test('the exit is reported once, last, with the exit code of the frame', async () => {
  const { stdout, events, end, session } = openTerminal()
  stdout.write(
    Buffer.concat([
      encodeFrame('output', Buffer.from('bye')),
      encodeExit(3),
      encodeFrame('output', Buffer.from('x')),
    ]),
  )
  await nextTick()
  end({ code: 0 })
  await nextTick()
  session.input('late')
  expect(events).toEqual(['bye', 'ended 3'])
})

test.each<[SandboxEnd, string, unknown[]]>([
  [{ startFailure: 'there is no bubblewrap' }, '', ['\r\nthere is no bubblewrap\r\n', 'ended 70']],
  [{ code: 69 }, 'no way out\n\u001b[31mat all', ['\r\nno way out\r\nat all\r\n', 'ended 69']],
  [{ code: 0 }, '', ['\r\nthe terminal has ended\r\n', 'ended 70']],
  [{ signal: 'SIGKILL' }, '', [expect.stringMatching(/^\r\n.* SIGKILL\r\n$/), 'ended 137']],
])(
  'a sandbox that ends with %j and without an exit frame prints the reason',
  async (end, message, expected) => {
    const { stderr, events, end: over } = openTerminal()
    stderr.write(message)
    await nextTick()
    over(end)
    await nextTick()
    expect(events).toEqual(expected)
  },
)

test('output that is no frame ends the terminal', async () => {
  const { stdout, events } = openTerminal()
  stdout.write('Segmentation fault')
  await nextTick()
  expect(events).toEqual(['killed'])
})

test('no output arrives while paused or after hanging up, and hanging up closes the input', async () => {
  const { stdout, events, session, input, end } = openTerminal()
  session.pause()
  stdout.write(encodeFrame('output', Buffer.from('one')))
  await nextTick()
  expect(events).toEqual([])
  session.resume()
  await nextTick()
  expect(events).toEqual(['one'])
  session.hangUp()
  stdout.write(encodeFrame('output', Buffer.from('two')))
  end({ signal: 'SIGKILL' })
  await nextTick()
  expect([events, input.writableEnded]).toEqual([['one'], true])
})

test('input is framed, and unread input is limited to more than a view may type at once', async () => {
  const { session, input } = openTerminal()
  session.input('x'.repeat(100_000))
  session.resize({ cols: 80, rows: 24 })
  const pieces: Buffer[] = []
  for (let piece = input.read(); piece !== null; piece = input.read()) pieces.push(piece)
  const frames = new PtyFrameReader().push(Buffer.concat(pieces))
  expect(frames === 'broken' ? frames : frames.map(({ kind, bytes }) => [kind, bytes.length])).toEqual([
    ['input', 65_536],
    ['input', 34_464],
    ['resize', 4],
  ])
  for (let n = 0; n < 100; n += 1) session.input('x'.repeat(60_000))
  const unread = input.readableLength + input.writableLength
  expect(unread).toBeGreaterThan(ATTACH_INPUT_BYTES_AT_ONCE)
  expect(unread).toBeLessThan(2.1 * ATTACH_INPUT_BYTES_AT_ONCE)
})

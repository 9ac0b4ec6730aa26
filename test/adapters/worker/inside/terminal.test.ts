/** Tests of the terminal program inside a sandbox, and of its frames. */
import { type ChildProcess, spawn } from 'node:child_process'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterEach, describe, expect, test } from '@jest/globals'
import fc from 'fast-check'
import {
  decodeExitCode,
  decodeSize,
  encodeExit,
  encodeFrame,
  encodeFrameHead,
  encodeResize,
  FRAME_BYTES_MAX,
  type PtyFrame,
  PtyFrameReader,
} from '../../../../worker/inside/terminal/frames.ts'
import { until } from '../../../support/until.ts'

const program = join(
  dirname(dirname(dirname(dirname(dirname(fileURLToPath(import.meta.url)))))),
  'dist/inside/terminal.js',
)
const running = new Set<ChildProcess>()
afterEach(() => {
  for (const child of running) child.kill('SIGKILL')
  running.clear()
})

function terminal(...command: readonly string[]) {
  const child = spawn(process.execPath, [program, '90', '25', ...command], {
    env: { PATH: '/usr/bin:/bin', TERM: 'xterm-256color', LANG: 'C.UTF-8', PS1: '$ ' },
    stdio: ['pipe', 'pipe', 'pipe'],
  })
  running.add(child)
  const reader = new PtyFrameReader()
  let [text, complaint] = ['', '']
  let code: number | undefined
  const take = ({ kind, bytes }: PtyFrame) => {
    if (kind === 'output') text += bytes.toString('latin1')
    if (kind === 'exit') code = decodeExitCode(bytes)
  }
  child.stdin.on('error', () => {})
  child.stdout.on('data', (chunk: Buffer) => {
    const frames = reader.push(chunk)
    if (frames === 'broken') throw new Error('broken frames')
    frames.forEach(take)
  })
  child.stderr.on('data', (chunk) => {
    complaint += chunk
  })
  const gone = new Promise<void>((resolve) => child.on('close', () => resolve()))
  return {
    child,
    text: () => Buffer.from(text, 'latin1').toString('utf8'),
    code: () => code,
    complaint: () => complaint,
    types: (typed: string) => child.stdin.write(encodeFrame('input', Buffer.from(typed))),
    gone,
    sees: (wanted: string) => until(`${wanted} is printed`, () => text.includes(wanted)),
  }
}

describe('frames', () => {
  const kinds = fc.constantFrom('input', 'resize', 'output', 'exit')
  const frames = fc.array(fc.record({ kind: kinds, bytes: fc.uint8Array({ maxLength: 300 }) }), {
    maxLength: 20,
  })

  test('are decoded unchanged, wherever the pipe splits them', () => {
    fc.assert(
      fc.property(frames, fc.array(fc.nat(40), { minLength: 1, maxLength: 50 }), (sent, cuts) => {
        const all = Buffer.concat(sent.map(({ kind, bytes }) => encodeFrame(kind, bytes)))
        const reader = new PtyFrameReader()
        const read: PtyFrame[] = []
        for (let at = 0, n = 0; at < all.length; n += 1) {
          const end = at + 1 + (cuts[n % cuts.length] ?? 0)
          const some = reader.push(all.subarray(at, end))
          if (some === 'broken') return false
          read.push(...some.map(({ kind, bytes }) => ({ kind, bytes: Buffer.from(bytes) })))
          at = end
        }
        expect(read).toEqual(sent.map(({ kind, bytes }) => ({ kind, bytes: Buffer.from(bytes) })))
        return true
      }),
    )
  })

  test('of unknown kind or excessive size are broken', () => {
    expect(new PtyFrameReader().push(Buffer.from('?\0\0\0\0'))).toBe('broken')
    expect(new PtyFrameReader().push(encodeFrameHead('output', FRAME_BYTES_MAX + 1))).toBe('broken')
    expect(new PtyFrameReader().push(encodeFrameHead('output', FRAME_BYTES_MAX))).toEqual([])
  })

  test('carry sizes and exit codes, and reject invalid ones', () => {
    const inside = (frame: Buffer) => frame.subarray(5)
    expect(decodeSize(inside(encodeResize({ cols: 100, rows: 30 })))).toEqual({ cols: 100, rows: 30 })
    expect(decodeSize(inside(encodeResize({ cols: 0, rows: 1e9 })))).toEqual({ cols: 1, rows: 65_535 })
    expect([
      decodeSize(Buffer.alloc(4)),
      decodeSize(Buffer.alloc(3)),
      decodeExitCode(Buffer.alloc(3)),
    ]).toEqual([undefined, undefined, undefined])
    expect(decodeExitCode(inside(encodeExit(137)))).toBe(137)
  })
})

describe('the terminal', () => {
  test('has a size, echoes, and follows resizes', async () => {
    const { types, sees, child, code, gone } = terminal('/bin/sh', '-i')
    types('stty size; tty\n')
    await sees('25 90\r\n/dev/pts/')
    child.stdin.write(encodeResize({ cols: 120, rows: 40 }))
    types('stty size; exit 9\n')
    await sees('40 120\r\n')
    await gone
    expect(code()).toBe(9)
  })

  test('accepts frames and characters byte by byte', async () => {
    const { child, sees } = terminal('/bin/cat')
    for (const byte of encodeFrame('input', Buffer.from('Grüße, 世界 🌍\n'))) {
      child.stdin.write(Uint8Array.of(byte))
      await new Promise((resolve) => setImmediate(resolve))
    }
    await sees(Buffer.from('Grüße, 世界 🌍\r\nGrüße, 世界 🌍\r\n').toString('latin1'))
  })

  test('delivers a long paste completely and in order to a command that reads late', async () => {
    const lines = Array.from({ length: 20_000 }, (_, n) => `line ${n} of a paste\n`)
    const { types, gone, text } = terminal(
      '/bin/sh',
      '-c',
      'stty -echo; echo begun; sleep 1; head -n 20000 | md5sum',
    )
    await until('the command has begun', () => text().includes('begun'))
    for (let at = 0; at < lines.length; at += 1_000) types(lines.slice(at, at + 1_000).join(''))
    await gone
    const { createHash } = await import('node:crypto')
    expect(text()).toContain(createHash('md5').update(lines.join('')).digest('hex'))
  })

  test('reports all output before the end, and the signal that ended the command', async () => {
    const { gone, text, code } = terminal('/bin/sh', '-c', 'seq 1 50000; kill -TERM $$')
    await gone
    expect(text().trimEnd().split('\r\n')).toHaveLength(50_000)
    expect(code()).toBe(128 + 15)
  })

  test('ends with its command, whatever background processes still use it', async () => {
    const { gone, code } = terminal('/bin/bash', '-c', 'trap "" HUP; sleep 30 & exit 2')
    await gone
    expect(code()).toBe(2)
  })

  test.each(['yes', 'while echo more; do sleep 0.05; done'])(
    'ends with its command, though what that has left on it prints on and on: %s',
    async (left) => {
      const { gone, code, text } = terminal(
        '/bin/sh',
        '-c',
        `seq 1 9999; setsid sh -c "${left}" & sleep 0.3; exit 2`,
      )
      await gone
      expect(code()).toBe(2)
      expect(text()).toContain('\r\n9999\r\n')
    },
  )

  test('sends SIGHUP when the worker is gone, and waits for the last output', async () => {
    const { child, gone, text, sees } = terminal(
      '/bin/sh',
      '-c',
      'trap "echo last words; exit 5" HUP; echo begun; while :; do sleep 0.05; done',
    )
    await sees('begun')
    child.stdin.end()
    await gone
    expect(text()).toContain('last words')
  })

  test('prints no faster than it is read, and still accepts input', async () => {
    const { child, types, gone, text, code } = terminal(
      '/bin/sh',
      '-c',
      'trap "exit 3" INT; yes nothing else',
    )
    await until('the command prints', () => text().length > 100_000)
    child.stdout.pause()
    await new Promise((resolve) => setTimeout(resolve, 100))
    types('\u0003')
    child.stdout.resume()
    await gone
    expect(code()).toBe(3)
  })

  test('reports a missing command', async () => {
    const { gone, text, code } = terminal('/no/such')
    await gone
    expect([code() === 0, text().includes('No such file')]).toEqual([false, true])
  })

  test('ends on an invalid frame', async () => {
    const { child, gone } = terminal('/bin/cat')
    child.stdin.write('hello there')
    await gone
  })
})

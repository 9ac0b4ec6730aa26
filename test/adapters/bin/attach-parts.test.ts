/** The parts of `switchyard attach`: detach keys, output filter, input rate, reconnecting, piped output. */
import { type AddressInfo, createServer, type Socket } from 'node:net'
import { Writable } from 'node:stream'
import { setTimeout as pause } from 'node:timers/promises'
import { describe, expect, test } from '@jest/globals'
import fc from 'fast-check'
import { PipedOutput } from '../../../bin/cli/attach/attach.ts'
import { DEFAULT_DETACH_KEYS, DetachKeyWatcher, readDetachKeys } from '../../../bin/cli/attach/detach-keys.ts'
import { realClock } from '../../../bin/process/clock.ts'
import { type AttachmentOptions, stayAttached } from '../../../client/attachment.ts'
import type { HostAddress } from '../../../client/connection.ts'
import { findHost } from '../../../client/find-host.ts'
import { InputSender } from '../../../client/input-sender.ts'
import { dialByNode } from '../../../client/node-socket.ts'
import type { AttachInput } from '../../../protocol/dashboard.ts'
import { ATTACH_FRAMES_PER_SECOND, ATTACH_INPUT_BYTES_PER_SECOND } from '../../../protocol/limits.ts'
import { drawSeed } from '../../support/random.ts'
import { encodeReply, startTerminalHost } from '../../support/terminal-host.ts'
import { closeAfterTest, createSettableClock, openTestServer, TOKEN } from '../../support/test-resources.ts'
import { until } from '../../support/until.ts'

const SEED = drawSeed()
const sure = { seed: SEED }
/** A port without a listener. */
const NOWHERE = 'http://127.0.0.1:9'
/** Much shorter than the timeout of a silent host, and much longer than detaching takes on a busy machine. */
const LEAVE_MS_MAX = 8_000

// ---- the detach keys -----------------------------------------------------------------------------------------------

describe('the detach keys', () => {
  const watch = (option = DEFAULT_DETACH_KEYS): DetachKeyWatcher => {
    const keys = readDetachKeys(option)
    if (!keys.ok) throw new Error(keys.refusal.message)
    return new DetachKeyWatcher(keys.value)
  }

  test.each([
    ['ctrl-],d', 'Ctrl-] d'],
    ['Ctrl-P,ctrl-q', 'Ctrl-P Ctrl-Q'],
    ['ctrl-\\', 'Ctrl-\\'],
  ])('%s are named %s', (option, name) => {
    expect(readDetachKeys(option)).toMatchObject({ ok: true, value: { name } })
  })

  test.each(['', 'd', 'ctrl-[', 'ctrl-],', 'ctrl-ä', 'strg-a', 'ctrl-1', Array(9).fill('ctrl-a').join()])(
    '%j is refused, with a way to write it',
    (option) => {
      expect(readDetachKeys(option)).toMatchObject({
        ok: false,
        refusal: { kind: 'invalid', message: expect.stringContaining('write them like ctrl-],d') },
      })
    },
  )

  test.each([
    ['\x1dd', '', 'as a byte'],
    ['\x1b[93;5ud', '', 'as kitty encodes it'],
    ['\x1b[93;133u\x1b[93;5:3ud', '', 'with a lock key on, and with the release of the key'],
    ['\x1b[27;5;93~d', '', 'as xterm encodes it'],
    ['\x1b[93::93;5:1u\x1b[100;1u', '', 'every key in the long form'],
    ['ab\x1d\x1dd', 'ab\x1d', 'after the first key was pressed twice'],
  ])('%j detaches', (typed, text) => {
    expect(watch().filter(`${typed}never seen`)).toEqual({ text, detach: true })
  })

  test.each(['\x1b[93;6ud', '\x1b[93;5:3ud', '\x1dx', ']d', '\x1b]d', '\x1b[93;1ud'])(
    '%j does not detach, and passes unchanged',
    (typed) => {
      expect(watch().filter(typed)).toEqual({ text: typed, detach: false })
    },
  )

  test('a sequence with a repeated beginning is found at every position', () => {
    const watcher = watch('ctrl-a,ctrl-a,b')
    expect(watcher.filter('\x01\x01\x01')).toEqual({ text: '\x01', detach: false })
    expect(watcher.filter('b')).toEqual({ text: '', detach: true })
  })

  test('all input except the detach keys passes unchanged', () => {
    const key = fc.constantFrom('\x1d', 'd', 'x', '\x1b[93;5u', '\x1b[A', '\x1b', 'é', '🙂', '\r')
    fc.assert(
      fc.property(fc.array(key, { maxLength: 40 }), (keys) => {
        const watcher = watch()
        const typedTexts: string[] = []
        for (const typed of keys) {
          const { text, detach } = watcher.filter(typed)
          typedTexts.push(text)
          if (detach) return
        }
        const all = keys.join('')
        expect(all.startsWith(typedTexts.join(''))).toBe(true)
        expect(['', '\x1d', '\x1b[93;5u']).toContain(all.slice(typedTexts.join('').length))
      }),
      sure,
    )
  })
})

// ---- the input sender ----------------------------------------------------------------------------------------------

describe('input', () => {
  function typing() {
    const clock = createSettableClock()
    const sent: { at: number; frame: AttachInput }[] = []
    const pauses: boolean[] = []
    const line = {
      send: (frame: AttachInput) => void sent.push({ at: clock.now(), frame }),
      backlog: () => 0,
      close: () => {},
    }
    const inputSender = new InputSender(clock, (isFull) => void pauses.push(isFull))
    const text = () => sent.map(({ frame }) => (frame.type === 'input' ? frame.data : '')).join('')
    return { clock, sent, pauses, line, inputSender, text }
  }

  test('of one key is sent at once', () => {
    const { clock, sent, line, inputSender } = typing()
    inputSender.connect(line, { cols: 80, rows: 24 })
    expect(sent.map(({ frame }) => frame)).toEqual([{ type: 'resize', cols: 80, rows: 24 }])
    clock.wind(100)
    for (const sign of 'ls') {
      inputSender.send(sign)
      expect(sent.at(-1)).toEqual({ at: clock.now(), frame: { type: 'input', data: sign } })
      clock.wind(30)
    }
  })

  test('waits for a connection, in order, and asks the caller to pause', () => {
    const { clock, pauses, line, inputSender, text } = typing()
    const long = 'word 🙂 '.repeat(700_000)
    inputSender.send('a')
    inputSender.send(long)
    expect(pauses).toEqual([true])
    inputSender.connect(line, { cols: 80, rows: 24 })
    inputSender.disconnect()
    clock.wind(60_000)
    expect(text().length).toBeLessThan(5_000)
    inputSender.connect(line, { cols: 80, rows: 24 })
    for (let ms = 0; ms < 60_000; ms += 1) clock.wind(1)
    // Do not print millions of characters on a failure.
    expect(text() === `a${long}`).toBe(true)
    expect(pauses).toEqual([true, false])
  })

  test('stays within the host’s limits', () => {
    const { clock, sent, line, inputSender, text } = typing()
    const wild = '\x00漢\u{7f}"\\'.repeat(30_000)
    inputSender.connect(line, { cols: 80, rows: 24 })
    inputSender.send(wild)
    for (let ms = 0; text().length < wild.length; ms += 1) {
      if (ms % 3 === 0) inputSender.resize({ cols: 80 + (ms % 7), rows: 24 })
      clock.wind(1)
    }
    const seconds = clock.now() / 1_000
    const bytes = sent.reduce((sum, { frame }) => sum + Buffer.byteLength(JSON.stringify(frame)), 0)
    expect(sent.length / seconds).toBeLessThan(ATTACH_FRAMES_PER_SECOND)
    expect(bytes / seconds).toBeLessThan(ATTACH_INPUT_BYTES_PER_SECOND)
    expect(text()).toBe(wild)
  })
})

// ---- detaching and reconnecting ------------------------------------------------------------------------------------

function attachmentOptions(
  find: AttachmentOptions['findHost'],
  changes: Partial<AttachmentOptions> = {},
): AttachmentOptions {
  const { clock = realClock } = changes
  return {
    runId: 'r1',
    dial: dialByNode,
    findHost: find,
    clock,
    inputSender: new InputSender(clock, () => {}),
    size: () => ({ cols: 80, rows: 24 }),
    draw: () => {},
    note: () => {},
    leave: new AbortController().signal,
    onRedrawNeeded: () => () => {},
    ...changes,
  }
}

const at = (url: string): HostAddress => ({ url, token: TOKEN, tokenFrom: 'this test' })

describe('detaching is possible', () => {
  /** Returns a host, and the condition to wait for before detaching. */
  type Scene = () => Promise<{ readonly find: () => Promise<HostAddress>; readonly isSo: () => boolean }>

  const scenes: readonly (readonly [string, Scene])[] = [
    ['before the host is found', async () => ({ find: () => pause(50, at(NOWHERE)), isSo: () => true })],
    [
      'while a host that is there does not answer',
      async () => {
        const { url, count } = await silentHost()
        return { find: async () => at(url), isSo: () => count() > 0 }
      },
    ],
    [
      'while it is being dialled again',
      async () => {
        let dialled = 0
        const find = async () => {
          dialled += 1
          return at(NOWHERE)
        }
        return { find, isSo: () => dialled > 1 }
      },
    ],
    [
      'on a line that says nothing',
      async () => {
        const host = await startTerminalHost()
        return { find: async () => at(host.url), isSo: () => (host.views[0]?.sizes().length ?? 0) > 0 }
      },
    ],
    [
      'on a line that breaks in the same moment',
      async () => {
        const host = await startTerminalHost()
        const isSo = () => {
          if ((host.views[0]?.sizes().length ?? 0) === 0) return false
          host.views[0]?.disconnect()
          return true
        }
        return { find: async () => at(host.url), isSo }
      },
    ],
    [
      'on a line that takes nothing in any more',
      async () => {
        const host = await startTerminalHost()
        host.onView = ({ peer }) => void peer.socket.pause()
        return { find: async () => at(host.url), isSo: () => host.views.length > 0 }
      },
    ],
  ]

  test.each(scenes)('%s', async (_, scene) => {
    const { find, isSo } = await scene()
    const leave = new AbortController()
    const attached = stayAttached(attachmentOptions(find, { leave: leave.signal }))
    await until('it is so', isSo)
    const began = Date.now()
    leave.abort()
    expect(await attached).toEqual({ is: 'left' })
    expect(Date.now() - began).toBeLessThan(LEAVE_MS_MAX)
  })

  test('before the first connection, and during a redraw', async () => {
    const host = await startTerminalHost()
    const find = async () => at(host.url)
    expect(await stayAttached(attachmentOptions(find, { leave: AbortSignal.abort() }))).toEqual({
      is: 'left',
    })
    const leave = new AbortController()
    let requestRedraw = () => {}
    const onRedrawNeeded: AttachmentOptions['onRedrawNeeded'] = (onNeeded) => {
      requestRedraw = onNeeded
      return () => {}
    }
    const attached = stayAttached(attachmentOptions(find, { leave: leave.signal, onRedrawNeeded }))
    await until('the line', () => (host.views.at(-1)?.sizes().length ?? 0) > 0)
    requestRedraw()
    leave.abort()
    expect(await attached).toEqual({ is: 'left' })
  })
})

test('a host that never returns ends the attachment after a limited number of attempts', async () => {
  const host = await startTerminalHost()
  host.onView = (view) => {
    if (host.views.length === 1) view.print('ready')
    view.disconnect()
  }
  const notes: string[] = []
  // The clock of this test shortens the pauses, but not the timeouts of a real host.
  const quick = {
    ...realClock,
    after: (ms: number, go: () => void) => realClock.after(ms > 9_000 ? ms : ms / 100, go),
  }
  const note = (text: string) => void notes.push(text)
  const message = expect.stringContaining('the connection to the host was lost')
  const end = await stayAttached(attachmentOptions(() => findHost(host.dataDir, {}), { clock: quick, note }))
  expect(end).toEqual({ is: 'unreachable', message })
  expect(host.views).toHaveLength(9)
  expect(notes).toHaveLength(1)
})

describe('a refused connection', () => {
  /** The clock of these tests shortens the pauses. */
  const quick = {
    ...realClock,
    after: (ms: number, go: () => void) => realClock.after(ms > 9_000 ? ms : ms / 100, go),
  }
  const sentence = (error: string) => JSON.stringify({ error })

  async function refused(reply: string, changes: Partial<AttachmentOptions> = {}, isNamed?: true) {
    const host = await startTerminalHost()
    host.refusal = reply
    const notes: string[] = []
    const find = async () => ({
      ...at(host.url),
      ...(isNamed === undefined ? {} : { isFromEnvironment: isNamed }),
    })
    const note = (text: string) => void notes.push(text)
    const end = await stayAttached(attachmentOptions(find, { clock: quick, note, ...changes }))
    return { host, end, notes }
  }

  test.each([
    [400, 'the path is not encoded'],
    [403, 'the Host header must name a loopback address'],
    [404, 'this path is unknown'],
    [409, 'run-1 is running: wait for its end'],
    [410, 'the sandbox of run-1 is gone'],
  ])('with %i ends with the host’s message, at once', async (status, message) => {
    const { host, end, notes } = await refused(encodeReply(status, sentence(`${message}\x1b[31m`)))
    expect(end).toEqual({ is: 'refused', message: expect.stringContaining(message) })
    expect(JSON.stringify(end)).not.toContain('\\u001b')
    expect([host.refusedViews, notes]).toEqual([1, []])
  })

  test('because of its token names the token’s source, and what to do', async () => {
    const reply = encodeReply(401, sentence('send the launch token'))
    const file = await refused(reply)
    expect(file.end).toEqual({
      is: 'refused',
      message: expect.stringMatching(/refused the token of this test; .*--data-dir/),
    })
    const named = await refused(reply, {}, true)
    expect(named.end).toEqual({ is: 'refused', message: expect.stringContaining('launch.json') })
    expect([file.host.refusedViews, named.host.refusedViews]).toEqual([1, 1])
    const lost = await refused(reply.replace('\r\n', '\r\nwww-authenticate: Bearer\r\n'))
    expect(lost.end).toEqual({ is: 'refused', message: expect.stringMatching(/did not reach the host/) })
  })

  test('by the real server ends with its message', async () => {
    const { url } = await openTestServer()
    const token = TOKEN.replace(/./g, 'x')
    const wrong = await stayAttached(attachmentOptions(async () => ({ ...at(url), token })))
    expect(wrong).toEqual({ is: 'refused', message: expect.stringContaining('refused the token') })
    expect(JSON.stringify(wrong)).not.toContain(token)
    const astray = await stayAttached(attachmentOptions(async () => at(`${url}/elsewhere`)))
    expect(astray).toEqual({ is: 'refused', message: expect.stringContaining('nothing at this path') })
  })

  test('by a server that is no host is reported as such', async () => {
    for (const body of ['<html>Login</html>', '', '{"error":7}']) {
      const { end } = await refused(encodeReply(302, body))
      expect(end).toEqual({
        is: 'refused',
        message: expect.stringContaining('answered 302 '),
      })
    }
  })

  test.each([429, 503, 502])('with %i is tried again, a limited number of times', async (status) => {
    const { host, end, notes } = await refused(encodeReply(status, sentence('too many terminals are open')))
    expect(end).toEqual({ is: 'unreachable', message: 'too many terminals are open' })
    expect([host.refusedViews, notes]).toEqual([9, ['too many terminals are open; connecting again']])
  })

  test('may be accepted a moment later', async () => {
    const host = await startTerminalHost()
    host.refusal = encodeReply(503, sentence('too many terminals are open'))
    host.onView = (view) => view.send({ type: 'exit', code: 4 })
    const note = () => {
      host.refusal = undefined
    }
    expect(await stayAttached(attachmentOptions(async () => at(host.url), { clock: quick, note }))).toEqual({
      is: 'exited',
      code: 4,
    })
  })

  test('is reported even if its reply hangs or is endless', async () => {
    const hurry = {
      ...realClock,
      after: (ms: number, go: () => void) => realClock.after(ms > 9_000 ? 3_000 : ms / 100, go),
    }
    const head = 'HTTP/1.1 403 No\r\ncontent-length: 99999999\r\n\r\n'
    for (const body of ['', '<p>', 'x'.repeat(100_000)]) {
      const { host, end } = await refused(`${head}${body}`, { clock: hurry })
      expect(end).toEqual({ is: 'refused', message: expect.stringContaining('answered 403') })
      expect(host.refusedViews).toBe(1)
    }
  })

  test.each([
    [401, undefined, 'exited', 'its host was started again, and its launch.json comes in a moment'],
    [401, true, 'refused', 'the token of the environment stays what it is'],
    [409, undefined, 'exited', 'its worker comes back'],
    [404, undefined, 'refused', 'what is gone stays gone'],
  ] as const)('with %i after a break (named: %s) is %s: %s', async (status, isNamed, is, _) => {
    const host = await startTerminalHost()
    host.onView = (view) => {
      if (host.views.length > 1) return view.send({ type: 'exit', code: 4 })
      host.refusal = encodeReply(status, sentence('no'))
      view.print('ready')
      view.disconnect()
    }
    const find = async () => {
      if (host.refusedViews >= 2) host.refusal = undefined
      return { ...at(host.url), ...(isNamed === undefined ? {} : { isFromEnvironment: isNamed }) }
    }
    expect(await stayAttached(attachmentOptions(find, { clock: quick }))).toMatchObject({ is })
    expect(host.refusedViews).toBe(is === 'exited' ? 2 : 1)
  })
})

test('a connection that fails reports the reason', async () => {
  const notes: string[] = []
  const leave = new AbortController()
  const note = (text: string) => {
    notes.push(text)
    leave.abort()
  }
  await stayAttached(
    attachmentOptions(async () => at(NOWHERE.replace(':9', ':1')), { note, leave: leave.signal }),
  )
  expect(notes).toEqual([expect.stringMatching(/lost \(.+\); connecting again/)])
  const refusing = createServer().listen(0, '127.0.0.1')
  await until('a port', () => refusing.listening)
  const { port } = refusing.address() as AddressInfo
  await new Promise((resolve) => refusing.close(resolve))
  const again = new AbortController()
  const noted = (text: string) => {
    notes.push(text)
    again.abort()
  }
  const find = async () => at(`http://127.0.0.1:${port}`)
  await stayAttached(attachmentOptions(find, { note: noted, leave: again.signal }))
  expect(notes[1]).toContain('ECONNREFUSED')
})

/** Accepts connections, and never answers. */
async function silentHost(): Promise<{ readonly url: string; readonly count: () => number }> {
  const sockets: Socket[] = []
  const server = createServer((socket) => void sockets.push(socket))
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  closeAfterTest(() => {
    for (const socket of sockets) socket.destroy()
    server.close()
  })
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, count: () => sockets.length }
}

// ---- standard output that is no terminal ---------------------------------------------------------------------------

describe('piped output', () => {
  function piping() {
    const taken: string[] = []
    const takes: (() => void)[] = []
    const stream = new Writable({
      write: (chunk, _, done) => {
        takes.push(() => {
          taken.push(String(chunk))
          done()
        })
      },
    })
    const notes: string[] = []
    const output = new PipedOutput(stream, (text) => void notes.push(text))
    const takeAll = async () => {
      while (takes.length > 0) {
        takes.shift()?.()
        await pause(0)
      }
    }
    return { stream, output, taken, notes, takeAll }
  }

  test('is written to the last byte before the end', async () => {
    const { output, taken, takeAll } = piping()
    for (const text of ['one ', 'two ', 'three']) output.draw(text)
    let isDone = false
    const flushed = output.flush().then(() => {
      isDone = true
    })
    await pause(0)
    expect([isDone, taken]).toEqual([false, []])
    await takeAll()
    await flushed
    expect(taken.join('')).toBe('one two three')
  })

  test('of a slow reader is limited; after a dropped part a redraw follows', async () => {
    const { stream, output, taken, notes, takeAll } = piping()
    let requests = 0
    const forget = output.onRedrawNeeded(() => {
      requests += 1
    })
    const piece = 'x'.repeat(64 * 1024)
    for (let drawn = 0; drawn < 1_000; drawn += 1) output.draw(piece)
    expect(stream.writableLength).toBeLessThan(9 * 1024 * 1024)
    expect(requests).toBe(0)
    await takeAll()
    expect([requests, notes.length, taken.length < 200]).toEqual([1, 1, true])
    output.draw('the picture')
    await takeAll()
    expect(taken.at(-1)).toBe('the picture')
    forget()
    // The session has ended, so no redraw follows.
    for (let drawn = 0; drawn < 1_000; drawn += 1) output.draw(piece)
    await takeAll()
    expect(notes.map((note) => note.includes('follows again'))).toEqual([true, false])
  })

  test('to a closed reader is finished at once', async () => {
    const { stream, output } = piping()
    stream.on('error', () => {})
    output.draw('one')
    stream.destroy(new Error('EPIPE'))
    await output.flush()
  })
})

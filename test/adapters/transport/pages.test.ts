/**
 * The listener of a page: who is admitted, what a code and a cookie are good for, and what reaches the host.
 *
 * The host behind it is a fake that records what is forwarded and answers as a test says.
 */
import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { brotliCompressSync, brotliDecompressSync, gunzipSync, gzipSync } from 'node:zlib'
import { beforeEach, describe, expect, test } from '@jest/globals'
import { DASHBOARD_PAGE } from '../../../bin/pages/page-kinds.ts'
import { realClock } from '../../../bin/process/clock.ts'
import type { Clock } from '../../../core/ports/clock.ts'
import { DASHBOARD_BACKLOG_BYTES_MAX } from '../../../protocol/limits.ts'
import { openPageServer, PAGE_SESSION_BYTES_MAX } from '../../../transport/pages/page-server.ts'
import {
  type ForwardedReply,
  type ForwardedRequest,
  type ForwardedSocketListener,
  type HostForwarder,
  PAGE_REQUESTS_MAX,
  PAGE_SIGN_INS_MAX,
  type PageServer,
} from '../../../transport/pages/page-server-options.ts'
import { PAGE_CODE_SECONDS, PAGE_SESSIONS_MAX } from '../../../transport/pages/page-sessions.ts'
import { askForBytes } from '../../support/ask-for-bytes.ts'
import { createRawClient, type RawReply } from '../../support/raw-client.ts'
import { connectRawSocket, connectSocket } from '../../support/socket-client.ts'
import { tempFolder } from '../../support/temp-folder.ts'
import { testListener } from '../../support/test-listener.ts'
import { closeAfterTest, createTextLog } from '../../support/test-resources.ts'
import { until } from '../../support/until.ts'

const folder = tempFolder()
mkdirSync(join(folder, 'assets'))
writeFileSync(join(folder, 'index.html'), '<!doctype html><title>page</title>')
writeFileSync(join(folder, 'terminal.html'), '<!doctype html><title>terminal</title>')
writeFileSync(join(folder, 'assets', 'app-1.js'), 'export {}')
const LONG_SCRIPT = 'export const words = 1\n'.repeat(100)
writeFileSync(join(folder, 'assets', 'long-1.js'), LONG_SCRIPT)
writeFileSync(join(folder, 'assets', 'long-1.js.br'), brotliCompressSync(LONG_SCRIPT))
writeFileSync(join(folder, 'assets', 'long-1.js.gz'), gzipSync(LONG_SCRIPT))

interface FakeHost extends HostForwarder {
  answer: (request: ForwardedRequest) => Promise<ForwardedReply> | ForwardedReply
  readonly requests: ForwardedRequest[]
  readonly dialled: {
    readonly path: string
    readonly listener: ForwardedSocketListener
    readonly sent: string[]
  }[]
  closedSockets: number
  backlog: number
}

function createFakeHost(): FakeHost {
  const host: FakeHost = {
    answer: () => replyOf(200, '{"ok":true}'),
    requests: [],
    dialled: [],
    closedSockets: 0,
    backlog: 0,
    send: async (request) => {
      host.requests.push(request)
      return host.answer(request)
    },
    dial: (path, listener) => {
      const sent: string[] = []
      host.dialled.push({ path, listener, sent })
      return {
        send: (text) => void sent.push(text),
        backlog: () => host.backlog,
        close: () => {
          host.closedSockets += 1
        },
      }
    },
  }
  return host
}

function replyOf(status: number, body: string, headers: Record<string, string> = {}): ForwardedReply {
  return {
    status,
    header: (name) => ({ 'content-type': 'application/json', ...headers })[name],
    body: (async function* () {
      yield Buffer.from(body)
    })(),
  }
}

const LINK_SECRET = 'the-secret-of-this-page'
let host: FakeHost
let server: PageServer
let later = 0
let haste = 1
const clock: Clock = {
  ...realClock,
  monotonic: () => realClock.monotonic() + later,
  after: (ms, run) => realClock.after(ms / haste, run),
}

beforeEach(async () => {
  host = createFakeHost()
  later = 0
  haste = 1
  const opened = await openPageServer({
    listener: testListener(),
    clock,
    log: createTextLog(),
    address: { host: '127.0.0.1', port: 0 },
    portSetting: '--port',
    ...DASHBOARD_PAGE,
    folder,
    forwarder: host,
    linkSecret: LINK_SECRET,
    programs: { path: '/programs', source: { open: () => ({ close: () => {} }) } },
  })
  if (!opened.ok) throw new Error(opened.refusal.message)
  server = opened.value
  closeAfterTest(() => server.close('the test is over'))
})

interface Asked {
  readonly method?: string
  readonly headers?: readonly string[]
  readonly body?: string
}

async function ask(path: string, { method = 'GET', headers = [], body = '' }: Asked = {}): Promise<RawReply> {
  const client = createRawClient(server.port)
  closeAfterTest(() => client.close())
  const named = headers.some((line) => /^host:/i.test(line)) ? [] : [`Host: 127.0.0.1:${server.port}`]
  const length = body === '' ? [] : [`Content-Length: ${Buffer.byteLength(body)}`]
  return client.ask(
    `${method} ${path} HTTP/1.1\r\n${[...named, ...headers, ...length].join('\r\n')}\r\n\r\n${body}`,
  )
}

const codeOf = (link: string): string => /#code=([\w-]{22})$/.exec(link)?.[1] ?? 'none'
const trade = (code: string): Promise<RawReply> =>
  ask('/session', {
    method: 'POST',
    headers: ['Content-Type: application/json', `Origin: http://127.0.0.1:${server.port}`],
    body: JSON.stringify({ code }),
  })

async function signIn(): Promise<string> {
  const reply = await trade(codeOf(server.createLink()))
  return reply.headers.get('set-cookie')?.split(';')[0] ?? ''
}

describe('a code', () => {
  test('is exchanged for a cookie of this port that scripts and other sites never get', async () => {
    const reply = await trade(codeOf(server.createLink()))
    expect(reply.status).toBe(204)
    const [pair = '', ...attributes] = (reply.headers.get('set-cookie') ?? '').split('; ')
    expect(pair).toMatch(new RegExp(`^switchyard-${server.port}=[\\w-]{43}$`))
    expect(attributes).toEqual(['HttpOnly', 'SameSite=Strict', 'Path=/'])
  })

  test('is good once', async () => {
    const code = codeOf(server.createLink())
    expect((await trade(code)).status).toBe(204)
    expect((await trade(code)).status).toBe(401)
  })

  test('is good for a minute', async () => {
    const code = codeOf(server.createLink())
    later = PAGE_CODE_SECONDS * 1000
    const reply = await trade(code)
    expect([reply.status, reply.headers.has('set-cookie')]).toEqual([401, false])
    expect(reply.body).toContain('switchyard dashboard')
  })

  test.each(['', 'null', '[]', '{"code":7}', '{', `{"code":"${'x'.repeat(22)}"}`])(
    'is not %s',
    async (body) => {
      const reply = await ask('/session', {
        method: 'POST',
        headers: ['Content-Type: application/json'],
        body,
      })
      expect(reply.status).toBe(401)
    },
  )

  test('is not longer than a code', async () => {
    const body = `{"code":"${'x'.repeat(PAGE_SESSION_BYTES_MAX)}"}`
    const reply = await ask('/session', { method: 'POST', headers: ['Content-Type: application/json'], body })
    expect(reply.status).toBe(413)
  })
})

describe('a session', () => {
  const statusOf = async (cookie: string): Promise<number> =>
    (await ask('/api/runs', { headers: [`Cookie: ${cookie}`] })).status

  test('is not forgotten for programs that connect again and again', async () => {
    const cookie = await signIn()
    for (let connected = 0; connected <= PAGE_SESSIONS_MAX; connected++) {
      const socket = connectSocket(server.port, `/programs?code=${codeOf(server.createLink())}`)
      await socket.opened
      socket.close()
      await socket.closed
    }
    expect(await statusOf(cookie)).toBe(200)
  })

  test('that is used stays, and the one that was used longest ago is forgotten', async () => {
    const [used, unused] = [await signIn(), await signIn()]
    for (let others = 0; others < PAGE_SESSIONS_MAX - 1; others++) {
      expect(await statusOf(used)).toBe(200)
      await signIn()
    }
    expect([await statusOf(used), await statusOf(unused)]).toEqual([200, 401])
  })

  test('does not come from the code of a program', async () => {
    const code = codeOf(server.createLink())
    await connectSocket(server.port, `/programs?code=${code}`).opened
    expect((await trade(code)).status).toBe(401)
  })
})

describe('a body that does not end', () => {
  test.each(['/session', '/api/runs/run-1/retry'])('to %s is not waited for', async (path) => {
    const cookie = await signIn()
    haste = 1000
    const client = createRawClient(server.port)
    closeAfterTest(() => client.close())
    const lines = [`Host: 127.0.0.1:${server.port}`, `Cookie: ${cookie}`, 'Content-Length: 20']
    const reply = await client.ask(`POST ${path} HTTP/1.1\r\n${lines.join('\r\n')}\r\n\r\n{"code"`)
    expect(reply.status).toBe(408)
    expect(host.requests).toEqual([])
  })
})

describe('sign-ins without a body', () => {
  /** As another user of this machine may begin them. */
  async function beginSignIns(count: number): Promise<readonly Promise<RawReply>[]> {
    const signIns = Array.from({ length: count }, () => {
      const client = createRawClient(server.port)
      closeAfterTest(() => client.close())
      return client.ask(
        `POST /session HTTP/1.1\r\nHost: 127.0.0.1:${server.port}\r\nContent-Length: 900\r\n\r\n`,
      )
    })
    // A reply to a later connection shows that the earlier ones were accepted.
    await ask('/')
    return signIns
  }

  test('keep nobody from using the page, who is signed in or signs in', async () => {
    const cookie = await signIn()
    const begun = await beginSignIns(PAGE_REQUESTS_MAX)
    expect((await ask('/api/runs', { headers: [`Cookie: ${cookie}`] })).status).toBe(200)
    expect((await trade(codeOf(server.createLink()))).status).toBe(204)
    const [oldest] = await Promise.all(begun.slice(0, PAGE_REQUESTS_MAX - PAGE_SIGN_INS_MAX))
    expect([oldest?.status, oldest?.headers.get('retry-after')]).toEqual([503, '1'])
  })

  test('are waited for up to a limit', async () => {
    const isAnswered = Array<boolean>(PAGE_SIGN_INS_MAX).fill(false)
    for (const [n, signIn] of (await beginSignIns(PAGE_SIGN_INS_MAX)).entries())
      void signIn.then(() => {
        isAnswered[n] = true
      })
    expect(isAnswered).not.toContain(true)
    await beginSignIns(1)
    await until('one has made a place', () => isAnswered.includes(true))
    expect(isAnswered.filter((is) => is)).toHaveLength(1)
  })
})

describe('requests that wait for the host', () => {
  test('are limited, also for who is signed in', async () => {
    const cookie = await signIn()
    host.answer = () => new Promise(() => {})
    const asked = Array.from({ length: PAGE_REQUESTS_MAX }, () =>
      ask('/api/runs', { headers: [`Cookie: ${cookie}`] }),
    )
    await until('all are forwarded', () => host.requests.length === asked.length)
    const reply = await ask('/api/runs', { headers: [`Cookie: ${cookie}`] })
    expect([reply.status, reply.headers.get('retry-after')]).toEqual([503, '1'])
    expect((await trade(codeOf(server.createLink()))).status).toBe(204)
  })
})

describe('a new code', () => {
  const newCode = (...headers: readonly string[]) => ask('/session/code', { method: 'POST', headers })

  test('is given to whoever has the secret, and signs in once', async () => {
    const reply = await newCode(`Authorization: Bearer ${LINK_SECRET}`)
    const { code } = JSON.parse(reply.body)
    expect([(await trade(code)).status, (await trade(code)).status]).toEqual([204, 401])
  })

  test.each([
    ['nothing', () => []],
    ['another secret', () => ['Authorization: Bearer x']],
    ['two secrets', () => Array.from({ length: 2 }, () => `Authorization: Bearer ${LINK_SECRET}`)],
    ['a cookie', async () => [`Cookie: ${await signIn()}`]],
    ['a browser', () => [`Authorization: Bearer ${LINK_SECRET}`, 'Sec-Fetch-Site: same-origin']],
    ['a page', () => [`Authorization: Bearer ${LINK_SECRET}`, `Origin: http://127.0.0.1:${server.port}`]],
  ])('is not given for %s', async (_, headers) => {
    const reply = await newCode(...(await headers()))
    expect([reply.status, reply.body.includes('code"')]).toEqual([401, false])
  })
})

describe('a request', () => {
  test.each([
    ['a foreign Host', () => ['Host: evil.example']],
    ['a Host that begins like loopback', () => ['Host: 127.0.0.1.evil.example']],
    ['a foreign Origin', () => ['Origin: http://evil.example']],
    ['the Origin of another port', () => [`Origin: http://127.0.0.1:${server.port + 1}`]],
    ['another name of loopback as its Origin', () => [`Origin: http://localhost:${server.port}`]],
    ['an Origin with encryption', () => [`Origin: https://127.0.0.1:${server.port}`]],
    ['the Origin null', () => ['Origin: null']],
    ['two Origins', () => [`Origin: http://127.0.0.1:${server.port}`, 'Origin: null']],
    ['another site', () => ['Sec-Fetch-Site: cross-site']],
    ['another port of this machine', () => ['Sec-Fetch-Site: same-site']],
  ])('of %s is refused', async (_, headers) => {
    const cookie = await signIn()
    for (const path of ['/', '/assets/app-1.js', '/api/runs', '/ws', '/session'])
      expect([path, (await ask(path, { headers: [...headers(), `Cookie: ${cookie}`] })).status]).toEqual([
        path,
        403,
      ])
    expect(host.requests).toEqual([])
  })

  test('of a link on another port of this machine gets the first document and nothing else', async () => {
    const headers = ['Sec-Fetch-Site: same-site', 'Sec-Fetch-Dest: document', `Cookie: ${await signIn()}`]
    const statusOf = async (path: string, method = 'GET', more: readonly string[] = []) =>
      (await ask(path, { method, headers: [...headers, ...more] })).status
    expect(await statusOf('/?actor=run%2F1')).toBe(200)
    expect(await statusOf('/api/runs')).toBe(403)
    expect(await statusOf('/', 'POST')).toBe(403)
    expect(await statusOf('/', 'GET', [`Origin: http://127.0.0.1:${server.port + 1}`])).toBe(403)
  })

  test.each([
    ['no cookie', () => ''],
    ['the cookie of another port', (value: string) => `switchyard-${server.port + 1}=${value}`],
    ['a made-up cookie', () => `switchyard-${server.port}=${'x'.repeat(43)}`],
    ['an empty cookie', () => `switchyard-${server.port}=`],
    ['a cookie whose name only ends like it', (value: string) => `x-switchyard-${server.port}=${value}`],
  ])('of %s gets files, and nothing of the host', async (_, made) => {
    const value = (await signIn()).split('=')[1] ?? ''
    const headers = [`Cookie: ${made(value)}`, 'Sec-Fetch-Site: same-origin']
    expect((await ask('/', { headers })).status).toBe(200)
    for (const path of ['/api/runs', '/api', '/ws', '/ws/runs/run-1/attach'])
      expect([path, (await ask(path, { headers })).status]).toEqual([path, 401])
    expect(host.requests).toEqual([])
  })

  test.each(['/api/../metrics', '/api/%2e%2e/metrics', '/ws/..'])(
    'for %s, which leads out of the interface, never reaches the host',
    async (path) => {
      await ask(path, { headers: [`Cookie: ${await signIn()}`] })
      expect(host.requests).toEqual([])
    },
  )

  test.each(['script', 'style', 'worker', 'serviceworker', 'object', 'embed'])(
    'of the host for a %s of a page is refused, because an agent may have written it',
    async (dest) => {
      const headers = [`Cookie: ${await signIn()}`, `Sec-Fetch-Dest: ${dest}`, 'Sec-Fetch-Site: same-origin']
      expect((await ask('/api/runs/run-1/artifacts/a.js', { headers })).status).toBe(403)
      expect(host.requests).toEqual([])
    },
  )

  test('with the cookie among others is forwarded without it', async () => {
    const cookie = await signIn()
    const reply = await ask('/api/runs?limit=3', { headers: [`Cookie: a=b; switchyard-1=x; ${cookie}`] })
    expect([reply.status, reply.body]).toEqual([200, '{"ok":true}'])
    expect(host.requests).toEqual([
      {
        method: 'GET',
        path: '/api/runs?limit=3',
        contentType: '',
        acceptEncoding: '',
        body: undefined,
        signal: expect.anything(),
      },
    ])
  })
})

describe('an answer of the host', () => {
  test('keeps status, body and the headers that the page needs, and can never act as a document', async () => {
    const cookie = await signIn()
    host.answer = () =>
      replyOf(409, '{"error":"no"}', { link: '</api/runs?before=1>; rel="next"', 'x-token': 'secret' })
    const body = '{"a":1}'
    const headers = [`Cookie: ${cookie}`, 'Content-Type: application/json']
    const reply = await ask('/api/runs/x/retry', { method: 'POST', headers, body })
    expect([reply.status, reply.body]).toEqual([409, '{"error":"no"}'])
    expect(reply.headers.get('link')).toBe('</api/runs?before=1>; rel="next"')
    expect(reply.headers.has('x-token')).toBe(false)
    expect(reply.headers.get('content-security-policy')).toContain('sandbox')
    expect(reply.headers.get('x-content-type-options')).toBe('nosniff')
    expect(reply.headers.get('cross-origin-resource-policy')).toBe('same-origin')
    expect(Buffer.from(host.requests[0]?.body ?? []).toString()).toBe(body)
  })

  test('of many parts arrives whole', async () => {
    const cookie = await signIn()
    const part = 'x'.repeat(200_000)
    host.answer = () => ({
      ...replyOf(200, ''),
      body: (async function* () {
        for (let sent = 0; sent < 20; sent++) yield Buffer.from(part)
      })(),
    })
    const reply = await ask('/api/runs/x/events', { headers: [`Cookie: ${cookie}`] })
    expect([reply.status, reply.body.length]).toEqual([200, 20 * part.length])
  })

  test('that breaks off ends the connection', async () => {
    const cookie = await signIn()
    host.answer = () => ({
      ...replyOf(200, ''),
      body: (async function* () {
        yield Buffer.from('[')
        throw new Error('ECONNRESET')
      })(),
    })
    expect((await ask('/api/runs/x/events', { headers: [`Cookie: ${cookie}`] })).closed).toBe(true)
  })

  test('that never comes is a 503 with the reason', async () => {
    const cookie = await signIn()
    host.answer = () => Promise.reject(new Error('the host is away: no host is running'))
    const reply = await ask('/api/runs', { headers: [`Cookie: ${cookie}`] })
    expect([reply.status, reply.headers.get('retry-after')]).toEqual([503, '1'])
    expect(reply.body).toContain('no host is running')
  })

  test('that nobody waits for any more is abandoned', async () => {
    const cookie = await signIn()
    host.answer = () => new Promise(() => {})
    const client = createRawClient(server.port)
    const lines = [`Host: 127.0.0.1:${server.port}`, `Cookie: ${cookie}`]
    void client.ask(`GET /api/runs HTTP/1.1\r\n${lines.join('\r\n')}\r\n\r\n`)
    await until('the request is forwarded', () => host.requests.length === 1)
    client.close()
    await until('the request is aborted', () => host.requests[0]?.signal.aborted === true)
  })
})

describe('files', () => {
  const policyOf = (reply: RawReply) => reply.headers.get('content-security-policy') ?? ''

  test('are served with a strict policy, and documents are asked for again', async () => {
    const reply = await ask('/')
    expect([reply.status, reply.headers.get('cache-control')]).toEqual([200, 'no-cache'])
    expect(policyOf(reply)).toBe(
      "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; font-src 'self'; manifest-src 'self'; worker-src 'self'; frame-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    )
    expect(reply.headers.get('referrer-policy')).toBe('no-referrer')
  })

  test('the terminal alone may have styles of its own, and be shown in a frame of this origin', async () => {
    const policy = policyOf(await ask('/terminal.html'))
    expect(policy).toContain("style-src 'self' 'unsafe-inline'")
    expect(policy).toContain("frame-ancestors 'self'")
    expect(policy).toContain("script-src 'self';")
  })

  test('with a hash in their name never change', async () => {
    const reply = await ask('/assets/app-1.js')
    expect(reply.headers.get('cache-control')).toContain('immutable')
    expect(reply.headers.get('content-type')).toContain('text/javascript')
  })

  test.each(['/runs/run-1', '/pulls/acme%2Fapi/3', '/fleet', '/%2e%2e/%2e%2e/etc/passwd', '/..'])(
    '%s is a place of the page',
    async (path) => expect((await ask(path)).body).toContain('<title>page</title>'),
  )

  test.each(['/assets/none.js', '/assets/../index', '/none.css', '/../package.json'])(
    '%s is no file',
    async (path) => {
      expect((await ask(path)).status).toBe(404)
    },
  )

  test('HEAD has the length alone, and other methods are refused', async () => {
    const client = createRawClient(server.port)
    closeAfterTest(() => client.close())
    const head = `Host: 127.0.0.1:${server.port}\r\n\r\n`
    expect((await client.ask(`HEAD / HTTP/1.1\r\n${head}`)).headers.get('content-length')).toBe('34')
    expect((await ask('/', { method: 'PATCH' })).status).toBe(405)
    expect((await ask('/', { method: 'POST', body: '{}' })).status).toBe(404)
  })
})

describe('compressed forms of a file', () => {
  const SCRIPT = '/assets/long-1.js'
  const askBytes = (...headers: readonly string[]) => askForBytes(server.port, SCRIPT, headers)

  test.each([
    ['gzip, deflate, br, zstd', 'br', brotliDecompressSync],
    ['GZIP;q=0.5', 'gzip', gunzipSync],
    ['br;q=0, *', 'gzip', gunzipSync],
  ])('are sent to a browser that takes %s', async (taken, encoding, decode) => {
    const { headers, body } = await askBytes(`Accept-Encoding: ${taken}`)
    expect([headers['content-encoding'], headers.vary]).toEqual([encoding, 'accept-encoding'])
    expect(headers['content-type']).toContain('text/javascript')
    expect(body.byteLength).toBeLessThan(LONG_SCRIPT.length / 10)
    expect(decode(body).toString()).toBe(LONG_SCRIPT)
  })

  test.each(['', 'identity', 'deflate, zstd', 'gzip;q=0, br;q=0.0', '*;q=0'])(
    'are not sent to a client that takes "%s"',
    async (taken) => {
      const { headers, body } = await askBytes(`Accept-Encoding: ${taken}`)
      expect([headers['content-encoding'], headers.vary]).toEqual([undefined, 'accept-encoding'])
      expect(body.toString()).toBe(LONG_SCRIPT)
    },
  )

  test('have ETags of their own, by which an unchanged file is a 304', async () => {
    const tags = new Set<string>()
    for (const taken of ['br', 'gzip', 'identity']) {
      const accept = `Accept-Encoding: ${taken}`
      const { headers } = await askBytes(accept)
      const tag = headers.etag ?? ''
      tags.add(tag)
      for (const match of [tag, `"other", W/${tag}`, '*']) {
        const again = await askBytes(accept, `If-None-Match: ${match}`)
        expect([again.status, again.body.byteLength, again.headers.etag]).toEqual([304, 0, tag])
        expect(again.headers.vary).toBe('accept-encoding')
      }
    }
    expect(tags.size).toBe(3)
    expect((await askBytes('Accept-Encoding: br', 'If-None-Match: "other"')).status).toBe(200)
  })

  test('are no files by themselves', async () => {
    expect((await ask(`${SCRIPT}.br`)).status).toBe(404)
    expect((await ask(`${SCRIPT}.gz`)).status).toBe(404)
  })

  test('HEAD has the length of the form that GET would send', async () => {
    const lines = [`Host: 127.0.0.1:${server.port}`, 'Accept-Encoding: br']
    const client = createRawClient(server.port)
    closeAfterTest(() => client.close())
    const reply = await client.ask(`HEAD ${SCRIPT} HTTP/1.1\r\n${lines.join('\r\n')}\r\n\r\n`)
    expect(reply.headers.get('content-length')).toBe(String(brotliCompressSync(LONG_SCRIPT).byteLength))
  })
})

describe('a socket', () => {
  const openSocket = async (path: string) => {
    const socket = connectSocket(server.port, path, { cookie: await signIn() })
    await socket.opened
    await until('it is dialled', () => host.dialled.length > 0)
    const dialled = host.dialled.at(-1)
    if (dialled === undefined) throw new Error('nothing was dialled')
    return { socket, dialled }
  }

  test('passes texts both ways, and keeps those that come too early', async () => {
    const { socket, dialled } = await openSocket('/ws/runs/run-1/attach?cols=80')
    expect(dialled.path).toBe('/ws/runs/run-1/attach?cols=80')
    socket.sendText('{"early":1}')
    await socket.waitUntilCaughtUp()
    expect(dialled.sent).toEqual([])
    dialled.listener.onOpen()
    socket.sendText('{"later":2}')
    await until('both have arrived', () => dialled.sent.length === 2)
    expect(dialled.sent).toEqual(['{"early":1}', '{"later":2}'])
    dialled.listener.onText('{"type":"hello"}')
    expect(await socket.firstFrames(1)).toEqual([{ type: 'hello' }])
  })

  test.each([
    [1001, 1001],
    [1013, 1013],
    [1006, 1013],
    [undefined, 1013],
  ])('that the host ends with %p ends with %p and its reason', async (code, expected) => {
    const { socket, dialled } = await openSocket('/ws')
    dialled.listener.onEnd('the service is stopping', code)
    expect(await socket.closed).toEqual({ code: expected, reason: 'the service is stopping' })
  })

  test('that the browser ends is ended at the host', async () => {
    const { socket } = await openSocket('/ws')
    socket.close()
    await until('it is closed', () => host.closedSockets === 1)
  })

  test('with too much before the host has answered is ended', async () => {
    const { socket } = await openSocket('/ws')
    for (let sent = 0; sent < 5; sent++) socket.sendText('x'.repeat(60_000))
    expect((await socket.closed).code).toBe(1008)
    expect(host.closedSockets).toBe(1)
  })

  test('that says more than the host takes is ended', async () => {
    const { socket, dialled } = await openSocket('/ws')
    dialled.listener.onOpen()
    host.backlog = DASHBOARD_BACKLOG_BYTES_MAX + 1
    socket.sendText('{}')
    expect((await socket.closed).code).toBe(1013)
    expect(dialled.sent).toEqual([])
  })

  const LARGE = JSON.stringify({ type: 'hello', text: 'x'.repeat(4 * DASHBOARD_BACKLOG_BYTES_MAX) })

  test('receives a hello far above the backlog limit, and what follows it at once, in order', async () => {
    const { socket, dialled } = await openSocket('/ws')
    dialled.listener.onText(LARGE)
    const texts = Array.from({ length: 500 }, (_, n) =>
      JSON.stringify({ type: 'push', n, text: 'é'.repeat(2_000) }),
    )
    for (const [n, text] of texts.entries()) {
      dialled.listener.onText(text)
      if (n % 50 === 49) await new Promise((resolve) => setImmediate(resolve))
    }
    const [hello, ...pushes] = await socket.firstFrames(1 + texts.length)
    expect(hello?.type).toBe('hello')
    expect(pushes.map(({ n }) => n)).toEqual(texts.map((_, n) => n))
    dialled.listener.onEnd('the service is stopping', 1001)
    expect((await socket.closed).code).toBe(1001)
  })

  /** A browser that reads nothing before `readToEnd`, which returns the code of the close frame. */
  async function openSilentSocket() {
    const socket = await connectRawSocket(server.port, '/ws', [`Cookie: ${await signIn()}`])
    await until('it is dialled', () => host.dialled.length > 0)
    const readToEnd = async (): Promise<number> => {
      const chunks: Buffer[] = []
      socket.on('data', (bytes) => chunks.push(bytes))
      const ended = new Promise((resolve) => socket.once('close', resolve))
      socket.resume()
      await ended
      const tail = Buffer.concat(chunks).subarray(-125)
      return tail.readUInt16BE(tail.lastIndexOf(0x88) + 2)
    }
    return { listener: host.dialled[0]?.listener, readToEnd }
  }

  test('that reads nothing is ended when more than the backlog limit waits behind a hello', async () => {
    const { listener, readToEnd } = await openSilentSocket()
    listener?.onText(LARGE)
    const text = JSON.stringify({ text: 'x'.repeat(64 * 1024) })
    for (let sent = 0; sent + text.length < DASHBOARD_BACKLOG_BYTES_MAX; sent += text.length)
      listener?.onText(text)
    expect(host.closedSockets).toBe(0)
    listener?.onText(text)
    expect(host.closedSockets).toBe(1)
    expect(await readToEnd()).toBe(1013)
  })

  test('that has not read everything when the host ends learns that it has missed something', async () => {
    const { listener, readToEnd } = await openSilentSocket()
    for (const text of [LARGE, '{"type":"push"}']) listener?.onText(text)
    listener?.onEnd('the session is over', 1000)
    expect(await readToEnd()).toBe(1013)
  })

  test.each([
    ['without a cookie', {}],
    ['of a foreign page', { origin: 'http://evil.example' }],
    ['of no page', { origin: 'null' }],
  ])('%s is refused', async (name, headers) => {
    const cookie = name === 'without a cookie' ? {} : { cookie: await signIn() }
    await expect(connectSocket(server.port, '/ws', { ...headers, ...cookie }).opened).rejects.toThrow(
      'not opened',
    )
    expect(host.dialled).toEqual([])
  })

  test('of this page, with its Origin, is accepted', async () => {
    const origin = `http://127.0.0.1:${server.port}`
    await connectSocket(server.port, '/ws', { origin, cookie: await signIn() }).opened
  })

  test('ends with the page', async () => {
    const { socket } = await openSocket('/ws')
    await server.close('the page ends')
    expect(await socket.closed).toEqual({ code: 1001, reason: 'the page ends' })
    expect(host.closedSockets).toBe(1)
  })
})

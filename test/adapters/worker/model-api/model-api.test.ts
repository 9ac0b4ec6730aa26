/**
 * Tests of the proxy between a sandbox and a model's API: a client at the run's socket, a vendor on the loopback.
 *
 * The client is hostile where the title says so. The vendor records what arrives, and may repeat it.
 */
import { execFileSync } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import {
  createServer,
  type IncomingMessage,
  type RequestListener,
  request,
  type ServerResponse,
} from 'node:http'
import { createServer as createTlsServer } from 'node:https'
import { type AddressInfo, connect } from 'node:net'
import { join } from 'node:path'
import { gzipSync } from 'node:zlib'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from '@jest/globals'
import { realClock } from '../../../../bin/process/clock.ts'
import { MODEL_API_BODY_BYTES_MAX } from '../../../../protocol/limits.ts'
import { DialedUpstream } from '../../../../worker/model-api/dialed-upstream.ts'
import { type ModelAccess, openModelAccess } from '../../../../worker/model-api/model-access.ts'
import {
  MODEL_API_REQUESTS_MAX,
  type ModelApi,
  openModelApi,
} from '../../../../worker/model-api/model-api.ts'
import type { ModelRules } from '../../../../worker/model-api/model-gate.ts'
import { MODEL_API_PARSED_PARTS_MAX } from '../../../../worker/model-api/request-body.ts'
import { ESTABLISHED } from '../../../../worker/sandbox/egress/egress-proxy.ts'
import { tempFolder } from '../../../support/temp-folder.ts'
import { until } from '../../../support/until.ts'

const KEY = 'sk-ant-api03-the-key-of-a-person-0123456789'
const MESSAGES = '/v1/messages'
const RULES: ModelRules = { provider: 'agentA', serverTools: [] }
const MODEL = 'claude-opus-5-5'
const BODY = JSON.stringify({ model: MODEL })

const upstream = new DialedUpstream({})
let seen: (Pick<IncomingMessage, 'method' | 'url' | 'headers'> & { body: string })[] = []
let answer: RequestListener = () => {}
const vendor = createServer(async (incoming, response) => {
  const pieces: Buffer[] = []
  incoming.on('error', () => {})
  try {
    for await (const piece of incoming) pieces.push(piece)
  } catch {
    return
  }
  const { method, url, headers } = incoming
  seen.push({ method, url, headers, body: Buffer.concat(pieces).toString() })
  answer(incoming, response)
})

const lines: string[] = []
let api: ModelApi | undefined

beforeAll(async () => {
  vendor.listen(0, '127.0.0.1')
  await once(vendor, 'listening')
})

beforeEach(() => {
  seen = []
  lines.length = 0
  answer = (_incoming, response) => response.setHeader('content-type', 'application/json').end('{"ok":true}')
})
afterEach(() => api?.close())
afterAll(async () => {
  await upstream.close()
  vendor.closeAllConnections()
  vendor.close()
})

function accessTo(origin: string): ModelAccess {
  const opened = openModelAccess('agentA', { kind: 'api-key', value: KEY }, Date.now())
  if (!opened.ok) throw new Error(opened.refusal.message)
  return { ...opened.value, origin }
}

async function openApi(): Promise<string> {
  const { port } = vendor.address() as AddressInfo
  api = await openModelApi({
    access: accessTo(`http://127.0.0.1:${port}`),
    folder: tempFolder(),
    upstream,
    rules: RULES,
    clock: realClock,
    log: (line) => void lines.push(line),
  })
  return api.socketPath
}

interface Answered {
  readonly status: number
  readonly headers: IncomingMessage['headers']
  readonly body: string
}

interface Question {
  readonly method?: string
  readonly path?: string
  readonly headers?: Readonly<Record<string, string>>
  readonly body?: string
}

function ask(
  socketPath: string,
  { method = 'POST', path = MESSAGES, headers = {}, body = BODY }: Question = {},
): Promise<Answered> {
  return new Promise((resolve, reject) => {
    const sent = request({ socketPath, method, path, headers, agent: false }, (response) => {
      let text = ''
      response.setEncoding('latin1').on('data', (part: string) => {
        text += part
      })
      const headers = response.headers
      response.on('close', () => resolve({ status: response.statusCode ?? 0, headers, body: text }))
    })
    sent.on('error', reject).end(method === 'GET' ? undefined : body)
  })
}

/** Writes bytes as they are, and returns everything that comes back. */
function writeRaw(socketPath: string, text: string): Promise<string> {
  return new Promise((resolve) => {
    let received = ''
    const socket = connect({ path: socketPath })
    const settle = () => {
      socket.destroy()
      resolve(received)
    }
    const timer = setTimeout(settle, 2_000)
    socket
      .on('error', () => {})
      .on('data', (part) => {
        received += part.toString('latin1')
      })
    socket.on('close', () => {
      clearTimeout(timer)
      settle()
    })
    socket.write(text)
  })
}

describe('a request to the model', () => {
  test('gets the credential outside, and loses every other', async () => {
    const socketPath = await openApi()
    const answered = await ask(socketPath, {
      path: `${MESSAGES}?beta=true&key=AIza-other&access_token=other`,
      headers: {
        'x-api-key': 'placeholder',
        authorization: 'Bearer another-account',
        cookie: 'session=1',
        'x-goog-api-key': 'other',
        x_api_key: 'other',
        'x-http-method-override': 'DELETE',
        'anthropic-beta': 'claude-code-20250219,mcp-client-2025-11-20',
        'openai-organization': 'org-other',
        'proxy-authorization': 'Basic eA==',
        'x-forwarded-for': '1.2.3.4',
        forwarded: 'for=1.2.3.4',
        host: 'evil.example.org',
        connection: 'close, x-dropped',
        'x-dropped': '1',
        'anthropic-version': '2023-06-01',
        'user-agent': 'claude-cli',
        'accept-encoding': 'gzip, br',
        'content-type': 'application/json',
      },
      body: BODY,
    })
    expect(answered).toMatchObject({ status: 200, body: '{"ok":true}' })
    const [{ url, headers, body, method } = { headers: {} }] = seen
    expect({ method, url, body }).toEqual({
      method: 'POST',
      url: `${MESSAGES}?beta=true`,
      body: BODY,
    })
    const { port } = vendor.address() as AddressInfo
    expect(headers).toEqual({
      host: `127.0.0.1:${port}`,
      connection: 'keep-alive',
      'x-api-key': KEY,
      'anthropic-version': '2023-06-01',
      'anthropic-beta': 'claude-code-20250219',
      'user-agent': 'claude-cli',
      'accept-encoding': 'identity',
      'content-type': 'application/json',
      'content-length': String(BODY.length),
    })
    expect(lines.join()).not.toContain(KEY)
  })

  test('streams both ways without waiting for the end', async () => {
    const socketPath = await openApi()
    let vendorResponse: ServerResponse | undefined
    answer = (_incoming, response) => {
      response.writeHead(200, { 'content-type': 'text/event-stream' }).write('data: 1\n\n')
      vendorResponse = response
    }
    const sent = request({ socketPath, method: 'POST', path: MESSAGES, agent: false })
    const parts: string[] = []
    let isComplete = false
    sent.on('response', (response) => {
      response.on('data', (part) => parts.push(String(part)))
      response.on('end', () => {
        isComplete = true
      })
    })
    sent.end(BODY)
    await until('the first part', () => parts.length === 1)
    vendorResponse?.write('data: 2\n\n')
    await until('the second part', () => parts.length === 2)
    vendorResponse?.end()
    await until('the end', () => isComplete)
    expect(parts.join('')).toBe('data: 1\n\ndata: 2\n\n')
  })

  test('that the agent abandons is abandoned at the vendor too where nothing is billed', async () => {
    const socketPath = await openApi()
    let isAbandoned = false
    answer = (_incoming, response) => {
      response.on('close', () => {
        isAbandoned = true
      })
      response.writeHead(200).write('x')
    }
    const sent = request({ socketPath, method: 'POST', path: MESSAGES, agent: false }).on('error', () => {})
    sent.on('response', () => sent.destroy())
    sent.end(BODY)
    await until('the vendor sees the end', () => isAbandoned)
  })

  test.each<[string, string, number]>([
    ['no JSON', 'x', 403],
    ['a list', '[1]', 403],
    ['too deep', `{"model":"${MODEL}","messages":${'['.repeat(200_000)}${']'.repeat(200_000)}}`, 403],
    ['too many parts', `{"model":"${MODEL}","messages":[${'{},'.repeat(MODEL_API_PARSED_PARTS_MAX)}1]}`, 413],
    [
      'too much text',
      `{"model":"${MODEL}","messages":[${'"'.padEnd(16_000, 'x')}"${`,${'"'.padEnd(16_000, 'x')}"`.repeat(600)}]}`,
      413,
    ],
  ])('is refused when its body is %s', async (_what, body, status) => {
    expect((await ask(await openApi(), { body })).status).toBe(status)
    expect(seen).toEqual([])
  })

  test('is written anew: once for each key, and with its files as they came', async () => {
    const file = `data:image/png;base64,${'AbC+/9'.repeat(100_000)}`
    const text = `${JSON.stringify('"\\ü\n'.repeat(10_000)).slice(1, -1)}\\u00fc`
    const body = `{"model":"a", "m\\u006fdel":"${MODEL}","messages":[{"content":"${file}"},{"content":"${text}"}]}`
    expect((await ask(await openApi(), { body })).status).toBe(200)
    expect(seen[0]?.body.match(/"model"/g)).toHaveLength(1)
    expect(JSON.parse(seen[0]?.body ?? '')).toEqual(JSON.parse(body))
    expect(seen[0]?.headers['content-length']).toBe(String(Buffer.byteLength(seen[0]?.body ?? '')))
  })

  test('may be packed, and leaves unpacked', async () => {
    const socketPath = await openApi()
    const packed = gzipSync(BODY)
    const statusOf = (encoding: string, bytes: Buffer) =>
      new Promise<number | undefined>((resolve, reject) => {
        const headers = { 'content-encoding': encoding }
        const sent = request({ socketPath, method: 'POST', path: MESSAGES, headers, agent: false })
        sent.on('response', (response) => resolve(response.resume().statusCode)).on('error', reject)
        sent.end(bytes)
      })
    expect(await statusOf('gzip', packed)).toBe(200)
    expect(seen).toMatchObject([{ body: BODY }])
    expect(seen[0]?.headers['content-encoding']).toBeUndefined()
    expect(await statusOf('gzip', Buffer.from('x'))).toBe(413)
    expect(await statusOf('compress', packed)).toBe(403)
    const bomb = gzipSync(Buffer.alloc(MODEL_API_BODY_BYTES_MAX + 1, 0x20))
    expect(await statusOf('gzip', bomb)).toBe(413)
    expect(seen).toHaveLength(1)
  })

  test('fails with the vendor’s kind of error when nobody answers', async () => {
    const opened = await openModelApi({
      access: accessTo('http://127.0.0.1:1'),
      folder: tempFolder(),
      upstream,
      rules: RULES,
      clock: realClock,
      log: (line) => void lines.push(line),
    })
    api = opened
    const answered = await ask(opened.socketPath)
    expect(answered.status).toBe(502)
    expect(JSON.parse(answered.body)).toMatchObject({ type: 'error', error: { type: 'api_error' } })
    expect(answered.body).toContain('ECONNREFUSED')
  })
})

describe('a hostile sandbox', () => {
  test.each<[string, Question]>([
    ['another path of the vendor', { path: '/v1/files' }],
    ['the administration', { path: '/v1/organizations/api_keys', method: 'GET' }],
    ['a path that leads back', { path: '/v1/messages/../files' }],
    ['an encoded path', { path: '/v1/messages/%2e%2e/files' }],
    ['another host in the path', { path: '//evil.example.org/v1/messages' }],
    ['an absolute address', { path: 'http://evil.example.org/v1/messages' }],
    ['a user name', { path: '/v1/messages@evil.example.org' }],
    ['another method', { method: 'DELETE', body: '' }],
    ['reading instead of asking', { method: 'GET' }],
    ['a path whose dots lead back', { path: '/v1/models/..', method: 'GET' }],
    ['a path whose dot stays', { path: '/v1/models/.', method: 'GET' }],
    ['a path with a query in it', { path: '/v1/files?x=/v1/messages' }],
  ])('cannot reach %s', async (_what, question) => {
    const answered = await ask(await openApi(), question)
    expect(answered.status).toBe(403)
    expect(JSON.parse(answered.body)).toMatchObject({ type: 'error', error: { type: 'permission_error' } })
    expect(seen).toEqual([])
  })

  test.each<[string, string]>([
    [
      'a header in a header',
      `POST ${MESSAGES} HTTP/1.1\r\nhost: a\r\nx-a: b\rx-api-key: evil\r\ncontent-length: 0\r\n\r\n`,
    ],
    [
      'a folded header',
      `POST ${MESSAGES} HTTP/1.1\r\nhost: a\r\nx-a: b\r\n  x-api-key: evil\r\nbad header\r\n\r\n`,
    ],
    ['a NUL in a header', `POST ${MESSAGES} HTTP/1.1\r\nhost: a\r\nx-a: b\0c\r\ncontent-length: 0\r\n\r\n`],
    [
      'two lengths',
      `POST ${MESSAGES} HTTP/1.1\r\nhost: a\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\nxx`,
    ],
    [
      'a length and chunks',
      `POST ${MESSAGES} HTTP/1.1\r\nhost: a\r\ncontent-length: 4\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n`,
    ],
    ['a tunnel', 'CONNECT api.anthropic.com:443 HTTP/1.1\r\nhost: api.anthropic.com:443\r\n\r\n'],
    [
      'a WebSocket',
      `GET /v1/responses HTTP/1.1\r\nhost: a\r\nconnection: upgrade\r\nupgrade: websocket\r\nsec-websocket-key: eA==\r\nsec-websocket-version: 13\r\n\r\n`,
    ],
    ['no HTTP', '\x16\x03\x01\x00\xa5\x01\x00\x00'],
    ['an endless head', `POST ${MESSAGES} HTTP/1.1\r\nx-a: ${'a'.repeat(100_000)}`],
  ])('gets nowhere with %s', async (_what, text) => {
    const received = await writeRaw(await openApi(), text)
    expect(received).toMatch(/^HTTP\/1\.1 4\d\d /)
    expect(received).not.toContain(KEY)
    expect(seen).toEqual([])
  })

  test('cannot send a body above the limit, stated or not', async () => {
    const socketPath = await openApi()
    const stated = await writeRaw(
      socketPath,
      `POST ${MESSAGES} HTTP/1.1\r\nhost: a\r\ncontent-length: ${MODEL_API_BODY_BYTES_MAX + 1}\r\n\r\n`,
    )
    expect(stated).toMatch(/^HTTP\/1\.1 413 /)
    const answered = await new Promise<number | undefined>((resolve) => {
      const sent = request({ socketPath, method: 'POST', path: MESSAGES, agent: false })
      sent.on('response', (response) => {
        resolve(response.statusCode)
        sent.destroy()
      })
      sent.on('error', () => {})
      const piece = Buffer.alloc(1024 * 1024)
      const write = (): void => {
        if (!sent.destroyed) sent.write(piece, () => setImmediate(write))
      }
      write()
    })
    expect(answered).toBe(413)
    expect(seen).toEqual([])
  })

  test('has a limited number of requests under way', async () => {
    const socketPath = await openApi()
    answer = (_incoming, response) => response.writeHead(200).flushHeaders()
    const open = Array.from({ length: MODEL_API_REQUESTS_MAX }, () => {
      const sent = request({ socketPath, method: 'POST', path: MESSAGES, agent: false }).on('error', () => {})
      sent.end(BODY)
      return sent
    })
    await until('all are under way', () => seen.length === MODEL_API_REQUESTS_MAX)
    const answered = await ask(socketPath)
    expect(answered).toMatchObject({ status: 503, body: expect.stringContaining('overloaded_error') })
    for (const sent of open) sent.destroy()
    answer = (_incoming, response) => response.end('free')
    await until('there is room again', async () => (await ask(socketPath)).status === 200)
  })
})

describe('a hostile vendor', () => {
  test('cannot make the proxy repeat the credential', async () => {
    const socketPath = await openApi()
    answer = ({ headers }, response) => {
      const echo = JSON.stringify({ headers, again: Buffer.from(`x ${KEY}`).toString('base64') })
      response.writeHead(401, {
        'request-id': String(headers['x-api-key']),
        'anthropic-organization-id': 'the-account',
        'content-length': Buffer.byteLength(echo),
      })
      for (const character of echo) response.write(character)
      response.end()
    }
    const answered = await ask(socketPath)
    expect(answered.status).toBe(401)
    expect(answered.headers).not.toHaveProperty('anthropic-organization-id')
    const text = JSON.stringify(answered)
    expect(text).toContain('***')
    expect(text).not.toContain('key-of-a-person')
    expect(Buffer.from(JSON.parse(answered.body).again, 'base64').toString()).not.toContain('key-of-a-person')
  })

  test.each([301, 302, 307, 308])('cannot redirect the credential with %i', async (status) => {
    const socketPath = await openApi()
    answer = (_incoming, response) => response.writeHead(status, { location: 'http://127.0.0.1:1/' }).end()
    const answered = await ask(socketPath)
    expect(answered).toMatchObject({ status: 502, body: expect.stringContaining('redirect') })
    expect(answered.headers.location).toBeUndefined()
    expect(seen).toHaveLength(1)
  })

  test('cannot hide an answer by compression, or plant a cookie', async () => {
    const socketPath = await openApi()
    answer = (_incoming, response) => response.writeHead(200, { 'content-encoding': 'gzip' }).end('x')
    expect((await ask(socketPath)).status).toBe(502)
    answer = (_incoming, response) => response.writeHead(200, { 'set-cookie': 'a=b' }).end('x')
    expect((await ask(socketPath)).headers['set-cookie']).toBeUndefined()
  })

  test('that breaks off breaks the answer off', async () => {
    const socketPath = await openApi()
    answer = (_incoming, response) => {
      response.writeHead(200, { 'content-length': 100 }).write('half')
      setTimeout(() => response.destroy(), 20)
    }
    const answered = await ask(socketPath)
    expect(answered.body).toBe('half')
    await until('the failure is logged', () => lines.some((line) => line.includes('failed')))
  })
})

describe('the vendor’s certificate', () => {
  const folder = tempFolder()
  const [keyFile, certFile] = [join(folder, 'key.pem'), join(folder, 'cert.pem')]
  const made = [
    'req',
    '-x509',
    '-newkey',
    'ec',
    '-pkeyopt',
    'ec_paramgen_curve:prime256v1',
    '-nodes',
    '-days',
    '2',
  ]
  const named = ['-subj', '/CN=localhost', '-addext', 'subjectAltName=DNS:localhost']
  execFileSync('openssl', [...made, ...named, '-keyout', keyFile, '-out', certFile], { stdio: 'ignore' })
  const [key, cert] = [readFileSync(keyFile, 'utf8'), readFileSync(certFile, 'utf8')]
  let asked = 0
  const server = createTlsServer({ key, cert }, (_incoming, response) => {
    asked += 1
    response.end('secret')
  })
  beforeAll(async () => {
    server.listen(0, 'localhost')
    await once(server, 'listening')
  })
  afterAll(() => void server.close())

  test.each([
    ['is refused without an authority that vouches for it', [], 502, 0],
    ['is accepted with one', [cert], 200, 1],
  ])('%s', async (_what, certificateAuthorities, status, count) => {
    const dialed = new DialedUpstream({ certificateAuthorities })
    api = await openModelApi({
      access: accessTo(`https://localhost:${(server.address() as AddressInfo).port}`),
      folder: tempFolder(),
      upstream: dialed,
      rules: RULES,
      clock: realClock,
      log: (line) => void lines.push(line),
    })
    expect((await ask(api.socketPath)).status).toBe(status)
    expect(asked).toBe(count)
    await dialed.close()
  })

  test('is checked through the proxy of the worker’s network, too', async () => {
    const tunnels: string[] = []
    const proxy = createServer().on('connect', ({ url = '' }, client) => {
      tunnels.push(url)
      const outer = connect(Number(url.split(':')[1]), 'localhost', () => {
        client.write(ESTABLISHED)
        outer.pipe(client).pipe(outer)
      })
      client.on('error', () => outer.destroy())
      outer.on('error', () => client.destroy())
    })
    proxy.listen(0, '127.0.0.1')
    await once(proxy, 'listening')
    const https = `http://127.0.0.1:${(proxy.address() as AddressInfo).port}`
    const proxies = { http: '', https, noProxy: '' }
    const { port } = server.address() as AddressInfo
    const statuses: number[] = []
    for (const certificateAuthorities of [[], [cert]]) {
      const dialed = new DialedUpstream({ certificateAuthorities, proxies })
      const opened = await openModelApi({
        access: accessTo(`https://localhost:${port}`),
        folder: tempFolder(),
        upstream: dialed,
        rules: RULES,
        clock: realClock,
        log: (line) => void lines.push(line),
      })
      statuses.push((await ask(opened.socketPath)).status)
      await Promise.all([opened.close(), dialed.close()])
    }
    expect(statuses).toEqual([502, 200])
    expect(new Set(tunnels)).toEqual(new Set([`localhost:${port}`]))
    proxy.closeAllConnections()
    proxy.close()
  })
})

test('closing ends what is under way, and the socket is gone', async () => {
  const socketPath = await openApi()
  answer = (_incoming, response) => response.writeHead(200).flushHeaders()
  const asked = ask(socketPath)
  await until('it is under way', () => seen.length === 1)
  await api?.close()
  // The head of the answer may not have arrived yet.
  expect(
    await asked.then(
      ({ body }) => body,
      () => '',
    ),
  ).toBe('')
  await expect(ask(socketPath)).rejects.toMatchObject({ code: 'ENOENT' })
  expect(lines.join('\n')).toMatch(/model api: closed after 0 answered requests/)
})

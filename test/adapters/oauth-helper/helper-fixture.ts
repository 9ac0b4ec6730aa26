/** A helper on a free port with a small upstream that sends the test's replies and records its requests. */
import { createServer, type IncomingHttpHeaders, type IncomingMessage, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { afterEach } from '@jest/globals'
import { realClock, realRandom } from '../../../bin/process/clock.ts'
import {
  type HelperServer,
  type HelperServerOptions,
  startHelperServer,
} from '../../../oauth-helper/server.ts'
import { readHelperSettings } from '../../../oauth-helper/settings.ts'
import { createHttp } from '../../../providers/http/http.ts'
import { createRecordingLog, type RecordingLog } from '../../support/recording-log.ts'
import { testListener } from '../../support/test-listener.ts'

export interface ReceivedRequest {
  readonly method: string
  readonly path: string
  readonly type: string
  readonly form: Readonly<Record<string, string>>
}

export interface FakeUpstreamReply {
  readonly status?: number
  readonly headers?: Readonly<Record<string, string>>
  readonly body: object | string
  readonly afterMs?: number
}

export interface UpstreamBench {
  readonly url: string
  readonly asked: ReceivedRequest[]
  lastHeaders: IncomingHttpHeaders
  answer: FakeUpstreamReply
}

export const SECRETS = {
  CODEHOST_CLIENT_ID: 'codehost-client-1',
  TRACKER_CLIENT_ID: 'tracker-client-1',
  TRACKER_CLIENT_SECRET: 'tracker-secret-planted-1',
}

const closers: (() => unknown)[] = []
afterEach(async () => {
  for (const close of closers.splice(0).reverse()) await close()
})

export function closeAfterTest(close: () => unknown): void {
  closers.push(close)
}

export async function startUpstream(): Promise<UpstreamBench> {
  const bench: UpstreamBench & { url: string } = { url: '', asked: [], lastHeaders: {}, answer: { body: {} } }
  const server = createServer((request, response) => {
    void textOf(request).then((text) => {
      const form = Object.fromEntries(new URLSearchParams(text))
      const { method = '', url = '' } = request
      bench.lastHeaders = request.headers
      bench.asked.push({ method, path: url, type: request.headers['content-type'] ?? '', form })
      const { status = 200, headers = {}, body, afterMs = 0 } = bench.answer
      setTimeout(() => {
        response.writeHead(status, { 'content-type': 'application/json; charset=utf-8', ...headers })
        response.end(typeof body === 'string' ? body : JSON.stringify(body))
      }, afterMs)
    })
  })
  bench.url = `http://127.0.0.1:${await listening(server)}`
  return bench
}

async function listening(server: Server): Promise<number> {
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  closeAfterTest(() => {
    server.closeAllConnections()
    server.close()
  })
  return (server.address() as AddressInfo).port
}

async function textOf(request: IncomingMessage): Promise<string> {
  const parts: Buffer[] = []
  for await (const part of request) parts.push(part as Buffer)
  return Buffer.concat(parts).toString('utf8')
}

export interface HelperBench {
  readonly helper: HelperServer
  readonly url: string
  readonly upstream: UpstreamBench
  readonly log: RecordingLog
  post(path: string, body?: unknown, headers?: Readonly<Record<string, string>>): Promise<Response>
  get(path: string, headers?: Readonly<Record<string, string>>): Promise<Response>
}

export async function startHelper(more: Partial<HelperServerOptions> = {}): Promise<HelperBench> {
  const upstream = await startUpstream()
  const settings = readHelperSettings({
    secrets: SECRETS,
    trackerUrl: upstream.url,
    codehostUrl: `${upstream.url}/`,
  })
  if (!settings.ok) throw new Error(settings.refusal.message)
  const log = createRecordingLog()
  const http = createHttp({ clock: realClock, random: realRandom })
  const opened = await startHelperServer({
    listener: testListener(),
    settings: settings.value,
    http,
    clock: realClock,
    log,
    address: { host: '127.0.0.1', port: 0 },
    docsUrl: 'https://docs.example.test/',
    requestsPerMinute: 10_000,
    trustedProxies: 0,
    ...more,
  })
  if (!opened.ok) throw new Error(opened.refusal.message)
  const helper = opened.value
  closeAfterTest(async () => {
    await helper.close()
    await http.close()
  })
  const url = `http://127.0.0.1:${helper.port}`
  return {
    helper,
    url,
    upstream,
    log,
    post: (path, body, headers = {}) =>
      fetch(`${url}${path}`, {
        method: 'POST',
        headers: { 'content-type': 'application/json', ...headers },
        ...(body === undefined ? {} : { body: typeof body === 'string' ? body : JSON.stringify(body) }),
      }),
    get: (path, headers = {}) => fetch(`${url}${path}`, { headers, redirect: 'manual' }),
  }
}

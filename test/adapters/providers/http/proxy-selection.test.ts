/** Proxies: real ones on loopback in front of a real TLS service, and the rules of selection. */
import { createServer, request, type Server } from 'node:http'
import { createServer as createTlsServer } from 'node:https'
import { type AddressInfo, connect, createServer as createTcpServer } from 'node:net'
import { afterAll, afterEach, beforeAll, describe, expect, test } from '@jest/globals'
import { realClock, realRandom } from '../../../../bin/process/clock.ts'
import { readNetwork, readProxies } from '../../../../bin/process/network.ts'
import { createHttp } from '../../../../providers/http/http.ts'
import type { ProxySettings } from '../../../../providers/http/http-types.ts'
import { selectProxy } from '../../../../providers/http/proxy-selection.ts'
import { type Certificate, makeCertificate } from '../../../agents-real/certificate.ts'
import { tempFolder } from '../../../support/temp-folder.ts'

/** A name without DNS entry: only the proxy can resolve it. */
const NAME = 'code.example'
const LOGIN = `Basic ${Buffer.from('ada:s%cret').toString('base64')}`

const open: { close(): unknown }[] = []
let certificate: Certificate
let service: { readonly server: Server; readonly port: number; readonly seen: string[] }

beforeAll(async () => {
  certificate = makeCertificate(tempFolder(), NAME)
  const seen: string[] = []
  const server = createTlsServer({ cert: certificate.cert, key: certificate.key }, (asked, reply) => {
    seen.push(
      `${asked.method} ${asked.url} ${asked.headers.host} ${asked.headers['proxy-authorization'] ?? '-'}`,
    )
    reply.end('hello')
  })
  service = { server, port: await listening(server), seen }
})
afterAll(() => void service.server.close())
afterEach(async () => {
  service.seen.length = 0
  for (const resource of open.splice(0)) await resource.close()
})

async function listening(server: {
  listen(port: number, host: string, done: () => void): unknown
  address(): unknown
}) {
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  // A server on a TCP port has this kind of address.
  return (server.address() as AddressInfo).port
}

/** Accepts tunnels and absolute requests, and sends both to this machine whatever their host. */
async function startProxy({
  wants,
  replyStatus = 200,
}: {
  readonly wants?: string
  readonly replyStatus?: number
} = {}) {
  const asked: string[] = []
  const refuses = (login: string | undefined) => (wants !== undefined && login !== wants ? 407 : replyStatus)
  const server = createServer((coming, reply) => {
    asked.push(`${coming.method} ${coming.url}`)
    const status = refuses(coming.headers['proxy-authorization'])
    if (status !== 200) return void reply.writeHead(status).end('refused')
    const { port, pathname, search } = new URL(coming.url ?? '')
    const on = {
      port,
      host: '127.0.0.1',
      path: pathname + search,
      method: coming.method,
      headers: coming.headers,
    }
    coming.pipe(request(on, (answer) => void answer.pipe(reply.writeHead(answer.statusCode ?? 500))))
  })
  server.on('connect', (coming, socket) => {
    asked.push(`CONNECT ${coming.url}`)
    const status = refuses(coming.headers['proxy-authorization'])
    if (status !== 200) return void socket.end(`HTTP/1.1 ${status} No\r\n\r\n`)
    const on = connect(Number(coming.url?.split(':')[1]), '127.0.0.1', () => {
      socket.write('HTTP/1.1 200 Yes\r\n\r\n')
      on.pipe(socket).pipe(on)
    })
    for (const end of [on, socket]) end.on('error', () => end.destroy())
  })
  const port = await listening(server)
  open.push({
    close: () => {
      server.closeAllConnections()
      server.close()
    },
  })
  return { asked, address: `127.0.0.1:${port}` }
}

function sendThroughProxies(
  proxies: Partial<ProxySettings>,
  authorities: readonly string[] = [certificate.authority],
) {
  const settings = { http: '', https: '', noProxy: '', ...proxies }
  const http = createHttp({
    clock: realClock,
    random: realRandom,
    proxies: settings,
    certificateAuthorities: authorities,
  })
  open.unshift(http)
  return (url: string) =>
    http.send({ method: 'GET', url, headers: { authorization: 'Bearer t0ken' }, tries: 1 })
}
const messageOf = (answer: Awaited<ReturnType<ReturnType<typeof sendThroughProxies>>>) =>
  answer.ok ? '' : answer.refusal.message

describe('through a proxy', () => {
  test('https goes through a tunnel, and only the proxy receives the login', async () => {
    const { asked, address } = await startProxy({ wants: LOGIN })
    const ask = sendThroughProxies({ https: `http://ada:s%25cret@${address}` })
    const url = `https://${NAME}:${service.port}/a?b=c`
    expect(await ask(url)).toMatchObject({ ok: true, value: { status: 200, text: 'hello' } })
    expect(await ask(url)).toMatchObject({ ok: true })
    expect(new Set(asked)).toEqual(new Set([`CONNECT ${NAME}:${service.port}`]))
    expect(service.seen).toEqual(Array(2).fill(`GET /a?b=c ${NAME}:${service.port} -`))
  })

  test('plain http is sent to the proxy with an absolute address', async () => {
    const seen: (string | undefined)[] = []
    const plain = createServer((coming, reply) => {
      seen.push(coming.headers.host)
      reply.end('plain')
    })
    const port = await listening(plain)
    open.push({ close: () => plain.close() })
    const { asked, address } = await startProxy({ wants: LOGIN })
    const ask = sendThroughProxies({ http: `http://ada:s%25cret@${address}` })
    expect(await ask(`http://${NAME}:${port}/a?b=c`)).toMatchObject({ value: { status: 200, text: 'plain' } })
    expect(asked).toEqual([`GET http://${NAME}:${port}/a?b=c`])
    expect(seen).toEqual([`${NAME}:${port}`])
  })

  test('a SOCKS proxy works too', async () => {
    const { address, asked } = await startSocksProxy()
    const ask = sendThroughProxies({ https: `socks5://ada:s%25cret@${address}` })
    expect(await ask(`https://${NAME}:${service.port}/s`)).toMatchObject({ value: { status: 200 } })
    expect(asked).toEqual(['ada:s%cret', NAME])
  })

  test.each([407, 403])(
    'a proxy that answers %s is named in the refusal, without its login',
    async (replyStatus) => {
      const { address } = await startProxy({ replyStatus })
      const proxy = `http://ada:s%25cret@${address}`
      const ask = sendThroughProxies({ https: proxy, http: proxy })
      const encrypted = messageOf(await ask(`https://${NAME}/secret-path?q=1`))
      expect(encrypted).toContain(`the proxy ${address} answered ${replyStatus}`)
      expect(encrypted.startsWith(NAME)).toBe(true)
      expect(encrypted).not.toMatch(/ada|cret|t0ken|path|q=1/)
      if (replyStatus === 407) expect(messageOf(await ask(`http://${NAME}/`))).toMatch(/answered 407; /)
    },
  )

  test('an unreachable proxy is named in the refusal, without its login', async () => {
    const message = messageOf(
      await sendThroughProxies({ https: 'http://ada:s%25cret@127.0.0.1:9' })(`https://${NAME}/`),
    )
    expect(message).toMatch(/^code\.example .* through the proxy 127\.0\.0\.1:9 \(ECONNREFUSED\)/)
    expect(message).not.toMatch(/ada|cret/)
  })

  test('an untrusted certificate is refused with advice', async () => {
    const { address } = await startProxy()
    const authority = makeCertificate(tempFolder(), NAME).authority
    const message = messageOf(
      await sendThroughProxies({ https: address }, [authority])(`https://${NAME}:${service.port}/`),
    )
    expect(message).toMatch(/NODE_EXTRA_CA_CERTS/)
    expect(service.seen).toEqual([])
  })

  test('an invalid proxy address is refused without quoting it', async () => {
    const message = messageOf(
      await sendThroughProxies({ https: 'gopher://ada:s%25cret@x' })(`https://${NAME}/`),
    )
    expect(message).toMatch(/not of the form http:\/\/host:port/)
    expect(message).not.toMatch(/ada|cret/)
  })
})

/** A SOCKS proxy that requires a login and connects to this machine. */
async function startSocksProxy() {
  const asked: string[] = []
  const server = createTcpServer((socket) => {
    socket.on('error', () => socket.destroy())
    socket.once('data', () => {
      socket.write(Buffer.from([5, 2]))
      socket.once('data', (login: Buffer) => {
        const user = login[1] ?? 0
        asked.push(`${login.subarray(2, 2 + user)}:${login.subarray(3 + user)}`)
        socket.write(Buffer.from([1, 0]))
        socket.once('data', (request: Buffer) => {
          asked.push(request.subarray(5, 5 + (request[4] ?? 0)).toString())
          const on = connect(request.readUInt16BE(request.length - 2), '127.0.0.1', () => {
            socket.write(Buffer.from([5, 0, 0, 1, 0, 0, 0, 0, 0, 0]))
            on.pipe(socket).pipe(on)
          })
          on.on('error', () => socket.destroy())
        })
      })
    })
  })
  const port = await listening(server)
  open.push({ close: () => server.close() })
  return { asked, address: `127.0.0.1:${port}` }
}

describe('proxy selection', () => {
  const around = (noProxy: string) => ({ http: 'http://plain:1', https: 'http://safe:2', noProxy })
  const proxyFor = (url: string, noProxy = '') => {
    const found = selectProxy(new URL(url), around(noProxy))
    if (!found.ok) throw new Error(found.refusal.message)
    return found.value?.url.host ?? 'directly'
  }

  test('each scheme has its own proxy, and a scheme without one connects directly', () => {
    expect([proxyFor('http://a.example'), proxyFor('https://a.example')]).toEqual(['plain:1', 'safe:2'])
    const none = selectProxy(new URL('https://a.example'), { http: 'http://plain:1', https: '', noProxy: '' })
    expect(none).toEqual({ ok: true, value: undefined })
  })

  test.each([
    'http://localhost:1',
    'https://localhost',
    'http://api.localhost',
    'http://localhost.',
    'http://127.0.0.1',
    'http://2130706433',
    'http://127.9.9.9:80',
    'http://[::1]:3',
    'http://[::ffff:127.0.0.1]',
    'http://0.0.0.0',
  ])('%s is on this machine and is contacted directly', (url) => {
    expect(proxyFor(url)).toBe('directly')
  })

  test.each([
    ['a.example', 'https://a.example', true],
    ['a.example', 'https://x.a.example', true],
    ['.a.example', 'https://a.example', true],
    ['*.a.example', 'https://x.a.example', true],
    ['A.Example.', 'https://a.example', true],
    ['a.example', 'https://a.example.', true],
    ['a.example', 'https://ba.example', false],
    ['a.example', 'https://a.example.org', false],
    ['b.example, a.example', 'https://a.example', true],
    ['b.example a.example', 'https://a.example', true],
    ['a.example:443', 'https://a.example', true],
    ['a.example:80', 'https://a.example', false],
    ['a.example:8443', 'https://a.example:8443', true],
    ['*', 'https://a.example', true],
    ['b.example,*', 'https://a.example', true],
    ['10.0.0.1', 'https://10.0.0.1', true],
    ['0.0.1', 'https://10.0.0.1', false],
    ['10.0.0.0/8', 'https://10.9.9.9', true],
    ['10.0.0.0/8', 'https://11.0.0.1', false],
    ['10.0.0.0/99', 'https://10.0.0.1', false],
    ['2001:db8::1', 'https://[2001:db8::1]', true],
    ['[2001:db8::1]', 'https://[2001:db8::1]', true],
    ['[2001:db8::1]:443', 'https://[2001:db8::1]', true],
    ['[2001:db8::1]:80', 'https://[2001:db8::1]', false],
    ['2001:db8::/32', 'https://[2001:db8:9::9]', true],
    [', ,', 'https://a.example', false],
    ['.', 'https://a.example', false],
  ])('except %j: %s', (noProxy, url, isDirect) => {
    expect(proxyFor(url, noProxy)).toBe(isDirect ? 'directly' : 'safe:2')
  })
})

describe('proxy variables', () => {
  test('a proxy without a scheme is an http proxy, and its login is made decodable', () => {
    expect(readProxies({ https_proxy: 'ada:100%@p.example:3128' })).toEqual({
      ok: true,
      value: { http: '', https: 'http://ada:100%25@p.example:3128', noProxy: '' },
    })
  })

  test('the network settings of this machine contain the proxies', () => {
    const known = readNetwork({ HTTPS_PROXY: 'http://p:1' })
    expect(known).toMatchObject({ ok: true, value: { proxies: { https: 'http://p:1' } } })
    expect(readNetwork({ HTTPS_PROXY: 'gopher://p' })).toMatchObject({ ok: false })
    const around = readNetwork({})
    expect(around.ok && Object.keys(around.value)).toEqual(['certificateAuthorities'])
  })
})

/**
 * Checks whether a host can be reached, through the proxy of the environment or directly.
 */
import { connect } from 'node:net'

const CHECK_MS_MAX = 10_000
const ANSWER_CHARS_MAX = 300

type Env = Readonly<Record<string, string | undefined>>

/** Resolves with `reached` or a sentence that starts with `refused`; never rejects. */
export function checkHost(host: string, port: number, env: Env, signal: AbortSignal): Promise<string> {
  const proxy = findProxy(env)
  return proxy === undefined
    ? checkDirectly(host, port, signal)
    : checkThroughProxy(proxy, host, port, signal)
}

function findProxy(env: Env): URL | undefined {
  const address = env.HTTPS_PROXY ?? env.https_proxy ?? ''
  return URL.canParse(address) ? new URL(address) : undefined
}

function checkDirectly(host: string, port: number, signal: AbortSignal): Promise<string> {
  return connectAndAsk(withoutBrackets(host), port, signal, undefined)
}

function checkThroughProxy(proxy: URL, host: string, port: number, signal: AbortSignal): Promise<string> {
  const target = `${host}:${port}`
  const request = `CONNECT ${target} HTTP/1.1\r\nHost: ${target}\r\n\r\n`
  return connectAndAsk(withoutBrackets(proxy.hostname), Number(proxy.port || 80), signal, request)
}

/** URLs write IPv6 addresses in brackets; sockets take them without. */
const withoutBrackets = (host: string): string => host.replace(/^\[|\]$/g, '')

function connectAndAsk(
  host: string,
  port: number,
  signal: AbortSignal,
  request: string | undefined,
): Promise<string> {
  return new Promise((resolve) => {
    const socket = connect({ host, port })
    const finish = (text: string) => {
      signal.removeEventListener('abort', stop)
      socket.destroy()
      resolve(text)
    }
    const stop = () => finish('interrupted')
    signal.addEventListener('abort', stop, { once: true })
    socket.setTimeout(CHECK_MS_MAX, () => finish('refused: no answer in time'))
    socket.on('error', (error) => finish(`refused: ${error.message}`))
    socket.on('end', () => finish('refused: the connection was closed'))
    socket.on('connect', () => (request === undefined ? finish('reached') : socket.write(request)))
    socket.on('data', (bytes) => finish(judgeReply(bytes.toString('latin1'))))
  })
}

function judgeReply(text: string): string {
  const [status = '', ...rest] = text.slice(0, ANSWER_CHARS_MAX).split('\r\n')
  return /^HTTP\/1\.\d 200/.test(status) ? 'reached' : `refused: ${[status, rest.at(-1)].join(' ').trim()}`
}

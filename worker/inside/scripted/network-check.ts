/**
 * Whether a host can be reached, and what stood in the way: through the proxy that the environment names, or directly.
 */
import { connect } from 'node:net'

const KNOCK_MS_MAX = 10_000
const ANSWER_CHARS_MAX = 300

type Env = Readonly<Record<string, string | undefined>>

/** Always a sentence: that nobody opens is an answer, too. */
export function knock(host: string, port: number, env: Env, signal: AbortSignal): Promise<string> {
  const proxy = proxyIn(env)
  return proxy === undefined ? directly(host, port, signal) : through(proxy, host, port, signal)
}

function proxyIn(env: Env): URL | undefined {
  const said = env.HTTPS_PROXY ?? env.https_proxy ?? ''
  return URL.canParse(said) ? new URL(said) : undefined
}

function directly(host: string, port: number, signal: AbortSignal): Promise<string> {
  return asked(bare(host), port, signal, undefined)
}

function through(proxy: URL, host: string, port: number, signal: AbortSignal): Promise<string> {
  const target = `${host}:${port}`
  const words = `CONNECT ${target} HTTP/1.1\r\nHost: ${target}\r\n\r\n`
  return asked(bare(proxy.hostname), Number(proxy.port || 80), signal, words)
}

/** IPv6 stands in brackets in an address, and without them in a connection. */
const bare = (host: string): string => host.replace(/^\[|\]$/g, '')

function asked(host: string, port: number, signal: AbortSignal, words: string | undefined): Promise<string> {
  return new Promise((resolve) => {
    const socket = connect({ host, port })
    const answer = (text: string) => {
      signal.removeEventListener('abort', stop)
      socket.destroy()
      resolve(text)
    }
    const stop = () => answer('interrupted')
    signal.addEventListener('abort', stop, { once: true })
    socket.setTimeout(KNOCK_MS_MAX, () => answer('refused: no answer in time'))
    socket.on('error', (error) => answer(`refused: ${error.message}`))
    socket.on('end', () => answer('refused: the connection was closed'))
    socket.on('connect', () => (words === undefined ? answer('reached') : socket.write(words)))
    socket.on('data', (bytes) => answer(judged(bytes.toString('latin1'))))
  })
}

function judged(text: string): string {
  const [status = '', ...rest] = text.slice(0, ANSWER_CHARS_MAX).split('\r\n')
  return /^HTTP\/1\.\d 200/.test(status) ? 'reached' : `refused: ${[status, rest.at(-1)].join(' ').trim()}`
}

/**
 * Contacts a server by each of the product's own clients, with a secret, for tests of what those clients refuse.
 *
 * A name of a client, and a function that answers what the client has received or why it failed.
 */
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { realClock as clock, realRandom as random } from '../../bin/process/clock.ts'
import { sendByNode } from '../../client/node-http.ts'
import { dialByNode } from '../../client/node-socket.ts'
import { provePeer } from '../../client/peer-owner.ts'
import { createUpstream } from '../../oauth-helper/upstream.ts'
import { createHttp } from '../../providers/http/http.ts'
import type { Http, ProxySettings } from '../../providers/http/http-types.ts'
import { createDemandClient } from '../../worker/dial-demand.ts'
import { createDialer } from '../../worker/dialer.ts'
import { createGit } from '../../worker/git/git.ts'
import { RemotePolicy } from '../../worker/git/remote-policy.ts'
import { DialedUpstream } from '../../worker/model-api/dialed-upstream.ts'
import { createRecordingLog } from './recording-log.ts'

export interface ContactedServer {
  /** The server's http or https address, without a path. */
  readonly url: string
  /** An HTTP proxy, for the clients that may use one for an address of this machine. */
  readonly proxy?: string
  /** A folder for files of the clients. */
  readonly folder: string
}

/** Each client sends this text as its credential. */
export const SENT_SECRET = `wc-${'a'.repeat(43)}`
const WORKER_ID = 'wk-0123456789abcdef'
const headers = { authorization: `Bearer ${SENT_SECRET}` }
const signal = AbortSignal.timeout(60_000)

export function outgoingConnections(
  server: ContactedServer,
): Readonly<Record<string, () => Promise<unknown>>> {
  const { url, proxy, folder } = server
  const channel = `${url.replace('http', 'ws')}/ws/worker`
  const proxies = proxy === undefined ? undefined : { http: '', https: proxy, noProxy: '' }
  const viaProxy =
    proxies === undefined
      ? {}
      : {
          'a worker’s connection through a proxy': () => dialWorker(channel, proxies),
          'a worker’s request to the model through a proxy': () => askModel(url, proxies),
        }
  return {
    'a client’s request': () =>
      sendByNode({ method: 'GET', url, headers, signal }).then(({ status }) => status),
    'a client’s socket': () => dialClient(url),
    'a provider’s request': () => sendProviderRequest(url),
    'the OAuth helper': () => postForm(url),
    'a worker’s connection': () => dialWorker(channel),
    'a supervisor’s request': () => askDemand(channel, folder),
    'a worker’s request to the model': () => askModel(url),
    git: () => fetchByGit(`${url}/a.git`, folder),
    ...viaProxy,
  }
}

function dialClient(url: string): Promise<unknown> {
  return new Promise((resolve) => {
    const listener = { onOpen() {}, onText() {}, onEnd: ({ reason }: { reason: string }) => resolve(reason) }
    dialByNode({ url, token: SENT_SECRET }, '/ws', listener)
  })
}

async function sendProviderRequest(url: string): Promise<unknown> {
  const http = createHttp({ clock, random })
  const sent = await http.send({ method: 'POST', url, headers, body: SENT_SECRET, tries: 1 })
  await http.close()
  return sent
}

/** The helper hides the reason from its callers, so its request is watched. */
async function postForm(url: string): Promise<unknown> {
  const http = createHttp({ clock, random })
  let answer: unknown
  const watched: Http = {
    ...http,
    send: async (request) => {
      const sent = await http.send(request)
      answer = sent
      return sent
    },
  }
  await createUpstream(watched, clock).postForm('the service', url, { client_secret: SENT_SECRET })
  await http.close()
  return answer
}

function dialWorker(channel: string, proxies?: ProxySettings): Promise<unknown> {
  const network = proxies === undefined ? {} : { proxies }
  const dialer = createDialer({
    url: () => channel,
    clock,
    log: createRecordingLog(),
    provePeer,
    ...network,
  })
  return new Promise((resolve) => {
    const proof = { kind: 'credential', workerId: WORKER_ID, secret: SENT_SECRET } as const
    dialer.dial({ onOpen() {}, onText() {}, onClose: resolve }, proof)
  })
}

function askDemand(url: string, folder: string): Promise<unknown> {
  const credentialFile = join(folder, 'credential.json')
  const credential = { workerId: WORKER_ID, secret: SENT_SECRET }
  writeFileSync(credentialFile, JSON.stringify(credential), { mode: 0o600 })
  return createDemandClient({ url: () => url, credentialFile, holder: 'supervisor', provePeer }).ask('drain')
}

async function askModel(origin: string, proxies?: ProxySettings): Promise<unknown> {
  const upstream = new DialedUpstream(proxies === undefined ? {} : { proxies })
  try {
    const { status } = await upstream.send({ origin, path: '/v1/messages', method: 'POST', headers, signal })
    return status
  } finally {
    await upstream.close()
  }
}

export function fetchByGit(address: string, folder: string): Promise<unknown> {
  const policy = new RemotePolicy({ privateHosts: [new URL(address).host] })
  const remote = { address, token: SENT_SECRET }
  return createGit({ folder, clock, policy }).run({ args: ['ls-remote', address], remote, timeoutMs: 20_000 })
}

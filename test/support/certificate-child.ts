/**
 * A process that contacts a server by each of the product's ways, for tests whose environment turns Node's and git's
 * checks of certificates off: tests in Jest can't, because it copies the environment.
 *
 * certificate-child <https address> <ssh address> <proxy> <folder>: prints for each way its name and why it failed
 */
import { writeFileSync, writeSync } from 'node:fs'
import { join } from 'node:path'
import { realClock as clock, realRandom as random } from '../../bin/clock.ts'
import { sendByNode } from '../../client/node-http.ts'
import { dialByNode } from '../../client/node-socket.ts'
import { createUpstream } from '../../oauth-helper/upstream.ts'
import { createHttp } from '../../providers/http/http.ts'
import type { ProxySettings } from '../../providers/http/http-types.ts'
import { createDemandClient } from '../../worker/dial-demand.ts'
import { createDialer } from '../../worker/dialer.ts'
import { createGit } from '../../worker/git/git.ts'
import { RemotePolicy } from '../../worker/git/remote-policy.ts'
import { DialedUpstream } from '../../worker/model-api/dialed-upstream.ts'
import { createRecordingLog } from './recording-log.ts'

const [url = '', sshUrl = '', proxy = '', folder = ''] = process.argv.slice(2)
const socketUrl = url.replace('https', 'wss')
const secret = `wc-${'a'.repeat(43)}`
const viaProxy: ProxySettings = { http: '', https: proxy, noProxy: '' }
const headers = { authorization: `Bearer ${secret}` }
const signal = AbortSignal.timeout(20_000)
const credentialFile = join(folder, 'credential.json')
writeFileSync(credentialFile, JSON.stringify({ workerId: 'wk-0123456789abcdef', secret }), { mode: 0o600 })

/** Each answers the reason for which it failed. */
const WAYS: Readonly<Record<string, () => Promise<unknown>>> = {
  'the environment turns checks off': async () => `${(await fetch(url)).status}`,
  'a client’s request': () => sendByNode({ method: 'GET', url, headers, signal }),
  'a client’s socket': () =>
    new Promise((_, reject) => {
      dialByNode({ url, token: secret }, '/ws', {
        onOpen() {},
        onText() {},
        onEnd: ({ reason }) => reject(reason),
      })
    }),
  'a provider’s request': sendProviderRequest,
  'the OAuth helper': async () => {
    const http = createHttp({ clock, random })
    // The helper hides the reason from its callers, so the request is watched below it.
    let reason: unknown
    const watched: typeof http = {
      ...http,
      send: async (request) => {
        const sent = await http.send({ ...request, tries: 1 })
        reason = sent
        return sent
      },
    }
    await createUpstream(watched, clock).postForm('the service', url, { client_secret: secret })
    await http.close()
    return JSON.stringify(reason)
  },
  'a worker’s connection': () => dialWorker(undefined),
  'a worker’s connection through a proxy': () => dialWorker(viaProxy),
  'a supervisor’s request': () =>
    createDemandClient({ url: `${socketUrl}/ws/worker`, credentialFile, holder: 'supervisor' }).ask('read'),
  'a worker’s request to the model': () => askModel(undefined),
  'a worker’s request to the model through a proxy': () => askModel(viaProxy),
  'git over https': () => fetchByGit(`${url}/a.git`),
  'git over ssh': () => fetchByGit(sshUrl),
}

async function sendProviderRequest() {
  const http = createHttp({ clock, random })
  const sent = await http.send({ method: 'POST', url, headers, body: secret, tries: 1 })
  await http.close()
  return sent
}

function dialWorker(proxies: ProxySettings | undefined) {
  const options = { url: () => `${socketUrl}/ws/worker`, clock, log: createRecordingLog() }
  return new Promise((_, reject) => {
    createDialer({ ...options, ...(proxies === undefined ? {} : { proxies }) }).dial(
      { onOpen() {}, onText() {}, onClose: reject },
      { kind: 'credential', workerId: 'wk-0123456789abcdef', secret },
    )
  })
}

async function askModel(proxies: ProxySettings | undefined) {
  const upstream = new DialedUpstream(proxies === undefined ? {} : { proxies })
  try {
    return await upstream.send({
      origin: url,
      path: '/v1/messages',
      method: 'POST',
      headers,
      signal,
    })
  } finally {
    await upstream.close()
  }
}

function fetchByGit(address: string) {
  const policy = new RemotePolicy({ privateHosts: [new URL(address).host] })
  const remote = { address, token: secret }
  return createGit({ folder, clock, policy }).run({ args: ['ls-remote', address], remote, timeoutMs: 20_000 })
}

for (const [name, contact] of Object.entries(WAYS)) {
  const outcome = await contact().catch((error) => `failed: ${error?.message ?? error} ${error?.cause ?? ''}`)
  const text = typeof outcome === 'string' ? outcome : JSON.stringify(outcome)
  writeSync(1, `${name} => ${text.replaceAll('\n', ' ')}\n`)
}
// Proxies keep connections open.
process.exit(0)
